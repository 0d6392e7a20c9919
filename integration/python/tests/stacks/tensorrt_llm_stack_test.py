"""pilotfish.tensorrt_llm in two processes of a tensor-parallel group, as TensorRT-LLM starts them: by MPI, or by Ray with torch.distributed.
The stand-in of tensorrt_llm_test is in each, the communicators are real, of mpi4py and of gloo.

Run as: tensorrt_llm_stack_test.py BINARY [unittest's arguments]
The test starts the ranks as: tensorrt_llm_stack_test.py rank TRANSPORT SETUP, which is a file, beside which a rank writes what it found.
"""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import package_path  # noqa: E402, F401
import tensorrt_llm_test as parts  # noqa: E402
from cli_case import main  # noqa: E402

N_RANKS = 2
LIMIT_S = 600


def join_mpi(setup):
    """The rank of this process, and its resource manager."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    assert world.Get_size() == N_RANKS
    parts.stand_in(parts.DrafterOf12, mpi_comm=lambda: world)
    return world.Get_rank(), parts.resources(world.Get_rank(), N_RANKS)


def join_gloo(setup):
    import torch

    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo", init_method=f"file://{setup}.store", rank=rank, world_size=N_RANKS)
    parts.stand_in(parts.DrafterOf12, mpi_disabled=lambda: True)
    return rank, parts.resources(rank, N_RANKS, tp_group_pg=torch.distributed.group.WORLD)


def run_rank(transport, setup):
    rank, resource_manager = {"mpi": join_mpi, "gloo": join_gloo}[transport](setup)
    given = json.loads(pathlib.Path(setup).read_text())
    drafter = parts.make_drafter(given["address"], given["model"])
    if rank == 0:
        drafter.client.wait_ready(LIMIT_S)
    requests, seen = parts.run_engine(drafter, given["prompts"], given["texts"], resource_manager)
    found = {"asks": drafter._client is not None, "seen": seen, "texts": [r.new_tokens for r in requests],
             "accepted": [r.n_accepted for r in requests], "drafted": [r.n_drafted for r in requests]}
    pathlib.Path(f"{setup}.{rank}").write_text(json.dumps(found))
    drafter.shutdown()


class TensorrtLlmRanks(parts.Texts):
    def run_ranks(self, transport):
        setup = self.root / transport
        setup.write_text(json.dumps({"address": self.worker(transport).address, "model": str(self.target), "prompts": self.prompts,
                                     "texts": self.texts}))
        command = [sys.executable, __file__, "rank", transport, str(setup)]
        if transport == "mpi":
            commands = [[pathlib.Path(sys.executable).parent / "mpiexec", "-n", str(N_RANKS), *command]]
        else:
            commands = [["env", f"RANK={rank}", *command] for rank in range(N_RANKS)]
        ranks = [subprocess.Popen(c) for c in commands]
        try:
            self.assertEqual({rank.wait(LIMIT_S) for rank in ranks}, {0})
        finally:
            for rank in ranks:
                rank.kill()
        return [json.loads(pathlib.Path(f"{setup}.{rank}").read_text()) for rank in range(N_RANKS)]

    def assert_first_asks_for_all(self, transport):
        found = self.run_ranks(transport)
        self.assertEqual([rank.pop("asks") for rank in found], [True, False])
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[1]["texts"], self.texts)
        self.assertEqual(found[1]["accepted"], found[1]["drafted"])
        self.assertGreater(min(found[1]["accepted"]), parts.N_NEW // 2)

    def test_two_ranks_of_mpi_verify_what_the_first_asks_for(self):
        self.assert_first_asks_for_all("mpi")

    def test_two_ranks_of_torch_distributed_verify_what_the_first_asks_for(self):
        self.assert_first_asks_for_all("gloo")


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        run_rank(*sys.argv[2:])
    else:
        main()
