"""--threading own and openmp: one text, whatever the threads; what a runtime sets; what is refused. Run as: FILE BINARY"""

import os
import sys

sys.dont_write_bytecode = True
from cli_case import PROMPT, Case, main  # noqa: E402


class Threading(Case):
    OPENMP = ("--threading", "openmp")

    def test_the_text_is_the_same_on_the_threads_of_a_runtime(self):
        sampled = ("--temperature", "0.8", "--seed", "7", "--method", "coupled")
        for options in [(), ("-d", self.draft), ("-d", self.draft, *sampled)]:
            own = self.generate("-n", "40", "--threads", "2", *options)["tokens"]
            for threads in ("1", "2", "3"):
                openmp = self.generate("-n", "40", "--threads", threads, *self.OPENMP, *options)["tokens"]
                self.assertEqual(openmp, own, (options, threads))

    def test_a_worker_and_a_verifier_run_on_a_runtime(self):
        plain = self.generate("-n", "40")["tokens"]
        threads = ("--threads", "2", *self.OPENMP)
        with self.pilotfish.serve("worker", self.draft, self.socket("worker"), *threads) as worker:
            far = self.generate("-n", "40", "--draft-worker", worker.address)["tokens"]
        with self.pilotfish.serve("verifier", self.target, self.socket("verifier"), *threads) as verifier:
            judged = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", "40",
                                   *threads)["tokens"]
        self.assertEqual([far, judged], [plain, plain])

    def test_quantize_and_the_benches_take_it(self):
        self.run_ok("quantize", "-m", self.target, "-o", f"{self.root}/int8", "--dtype", "int8", *self.OPENMP)
        self.run_ok("bench", "kernels", "--quick", "--op", "rope", "--threads", "2", *self.OPENMP)
        for threading in ("own", "openmp"):
            figures = self.run_bench("throughput", "-m", self.target, "--prompt-len", "8", "--gen-len", "2", "--context", "8",
                                     "--threads", "2", "--threading", threading)
            if figures:
                self.assertEqual(figures["limits"]["threads"], 2)

    def test_info_names_the_runtime_and_its_threads(self):
        self.assertEqual(self.run_json("info")["threading"]["name"], "own")
        self.assertIsNone(self.run_json("info")["threading"]["runtime"])
        shown = self.run_json("info", *self.OPENMP)["threading"]
        self.assertEqual(shown["name"], "openmp")
        self.assertTrue(os.path.exists(shown["runtime"]), shown)
        self.assertIn(shown["runtime"], self.run_ok("info", *self.OPENMP).out.decode())
        of_model = self.run_json("info", "-m", self.target, "--threads", "3", *self.OPENMP)["threading"]
        self.assertEqual(of_model, {"name": "openmp", "runtime": shown["runtime"], "threads": 3})

    def test_without_a_number_there_are_no_more_threads_than_the_runtimes(self):
        one = {"OMP_NUM_THREADS": "1"}
        self.assertEqual(self.run_json("info", *self.OPENMP, environment=one)["threading"]["threads"], 1)
        self.assertEqual(self.run_json("info", "-m", self.target, *self.OPENMP, environment=one)["threading"]["threads"], 1)
        self.assertEqual(self.run_json("info", "-m", self.target, "--threads", "2", *self.OPENMP, environment=one)["threading"]["threads"], 2)

    def test_what_a_runtime_does_not_give_is_refused(self):
        generate = ["generate", "-m", self.target, "-p", PROMPT, "-n", "4", *self.OPENMP]
        limited = {"OMP_THREAD_LIMIT": "2"}
        self.assert_fails(*generate, "--threads", "3", environment=limited, saying=["gives 2 of 3 threads", "OMP_THREAD_LIMIT"])
        self.run_ok(*generate, environment=limited)
        self.assert_fails(*generate, "--cores", "0", saying=["list of 1 cores with OpenMP", "OMP_PLACES"])
        self.assert_fails(*generate[:-1], "pthreads", code=2, saying=['--threading is "pthreads", expected one of own, openmp'])


if __name__ == "__main__":
    main()
