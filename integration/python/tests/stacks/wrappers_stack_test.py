"""LangChain's and LlamaIndex's wrappers of local models on AutoModelForCausalLM, beside the same wrappers on transformers' model; and
LlamaIndex's client of OpenAI-like servers on `pilotfish serve`.

Run as: wrappers_stack_test.py BINARY [unittest's arguments], in a Python that has langchain-huggingface, llama-index-llms-huggingface and
llama-index-llms-openai-like besides torch, transformers and cffi. The library is the one beside BINARY.
"""

import os
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tree_paths  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from command_line import Pilotfish  # noqa: E402
from langchain_core.prompts import PromptTemplate  # noqa: E402
from langchain_huggingface import HuggingFacePipeline  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.llms.huggingface import HuggingFaceLLM  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402
from pilotfish import AutoModelForCausalLM  # noqa: E402

MODELS = tree_paths.ROOT / "models"
TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}assistant:"
LINES = (MODELS / "prompts.txt").read_text().splitlines()[:4]
N_NEW = 24
torch.set_num_threads(1)


class WrappersTest(unittest.TestCase):
    """In float32, with a draft. Each test asks both models and compares all that the wrapper returns."""

    @classmethod
    def setUpClass(cls):
        path = str(MODELS / "target")
        cls.tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(path, padding_side="left", chat_template=TEMPLATE)
        cls.tokenizer.pad_token_id = 1
        cls.theirs = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        cls.ours = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, draft=MODELS / "draft", draft_len=4, threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.ours.close()

    def of_both(self, ask, wrap):
        ours, theirs = (ask(wrap(model)) for model in (self.ours, self.theirs))
        self.assertEqual(ours, theirs)
        return ours

    def langchain(self, model):
        return HuggingFacePipeline(batch_size=4, pipeline=transformers.pipeline(
            "text-generation", model=model, tokenizer=self.tokenizer, max_new_tokens=N_NEW, do_sample=False))

    def llama_index(self, model):
        return HuggingFaceLLM(model=model, tokenizer=self.tokenizer, context_window=self.ours.max_context, max_new_tokens=N_NEW, is_chat_model=True,
                              generate_kwargs={"do_sample": False, "pad_token_id": 1})

    def test_langchain_invokes_batches_and_streams(self):
        def ask(llm):
            chain = PromptTemplate.from_template("{line}") | llm
            return (llm.invoke(LINES[0]), llm.invoke(LINES[0], skip_prompt=True), llm.batch(LINES), chain.invoke({"line": LINES[1]}),
                    "".join(llm.stream(LINES[2])))

        whole, new, batch, chained, streamed = self.of_both(ask, self.langchain)
        self.assertEqual(whole, LINES[0] + new)
        self.assertEqual((len(batch), batch[0], batch[1]), (4, whole, chained))
        self.assertEqual(batch[2], LINES[2] + streamed)
        self.assertGreater(self.ours.figures.accepted, 0)

    def test_langchain_samples_by_a_seed(self):
        llm = self.langchain(self.ours)
        options = {"pipeline_kwargs": {"do_sample": True, "temperature": 1.5, "top_k": 20}}

        def sample(seed):
            torch.manual_seed(seed)
            return llm.invoke(LINES[0], **options)

        self.assertEqual(sample(1), sample(1))
        self.assertNotEqual(sample(1), sample(2))

    def test_llama_index_completes_chats_and_streams(self):
        messages = [ChatMessage(role="user", content=LINES[1])]

        def ask(llm):
            parts = list(llm.stream_complete(LINES[0]))
            return (llm.complete(LINES[0]).text, "".join(part.delta for part in parts), llm.chat(messages).message.content,
                    list(llm.stream_chat(messages))[-1].message.content)

        text, streamed, answer, streamed_answer = self.of_both(ask, self.llama_index)
        self.assertGreater(len(text), N_NEW)
        self.assertEqual((text, answer), (streamed, streamed_answer))

    def test_llama_index_stops_at_its_ids(self):
        ids = self.tokenizer(LINES[0])["input_ids"]
        text = self.ours.generate(torch.tensor([ids]), max_new_tokens=N_NEW, do_sample=False, pad_token_id=1)[0, len(ids):].tolist()

        def ask(llm):
            return llm.complete(LINES[0]).raw["model_output"][0].tolist()

        def stops(model):
            return HuggingFaceLLM(model=model, tokenizer=self.tokenizer, context_window=1024, max_new_tokens=N_NEW, stopping_ids=[text[5]],
                                  generate_kwargs={"do_sample": False, "pad_token_id": 1})

        self.assertEqual(self.of_both(ask, stops), ids + text[:text.index(text[5]) + 1])

    def test_a_wrapper_goes_on_without_its_worker(self):
        with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as home, AutoModelForCausalLM.from_pretrained(
                MODELS / "target", dtype=torch.float32, draft_worker=f"unix:{home}/absent.sock", threads=1) as drafted:
            self.assertEqual(self.llama_index(drafted).complete(LINES[0]).text, self.llama_index(self.theirs).complete(LINES[0]).text)


class ServerTest(unittest.TestCase):
    def test_llama_index_asks_a_server(self):
        with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as home:
            (Path(home) / "template").write_text(TEMPLATE)
            pilotfish = Pilotfish(BINARY, home)
            arguments = ("-d", MODELS / "draft", "--chat-template", Path(home) / "template", "--threads", "1")
            with pilotfish.serve("serve", MODELS / "target", "localhost:0", *arguments) as server:
                options = {"model": "target", "api_base": f"http://{server.address}/v1", "api_key": "any", "temperature": 0.0,
                           "max_tokens": N_NEW, "context_window": 1024}
                completes, chats = OpenAILike(**options), OpenAILike(is_chat_model=True, **options)
                text = completes.complete(LINES[0]).text
                self.assertEqual("".join(part.delta for part in completes.stream_complete(LINES[0])), text)
                plain = pilotfish.run("generate", "-m", MODELS / "target", "-p", LINES[0], "-n", N_NEW, "--threads", "1", "--json").json
                self.assertEqual(text, plain["text"])
                messages = [ChatMessage(role="user", content=LINES[1])]
                answer = chats.chat(messages).message.content
                self.assertGreater(len(answer), 0)
                self.assertEqual("".join(part.delta for part in chats.stream_chat(messages)), answer)


if __name__ == "__main__":
    BINARY = str(Path(sys.argv.pop(1)).resolve())
    os.environ["PILOTFISH_LIBRARY"] = str(Path(BINARY).parent / "libpilotfish.so.0")
    unittest.main(verbosity=2)
