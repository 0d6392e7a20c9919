"""`pilotfish serve`: OpenAI's API over HTTP, by a client of the standard library."""

import json
import math
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import Case, PROMPT, main  # noqa: E402
from http_client import QUICKLY, Client, Connection, at_once, send_raw  # noqa: E402

TEMPLATE = """{%- for m in messages %}
{{- m.role + ' ' + m.content }}
{% endfor %}
{%- if tools %}{{ tools|tojson }}{% endif %}
{%- if add_generation_prompt %}the{% endif %}
"""
MESSAGES = [{"role": "user", "content": "an other"}, {"role": "assistant", "content": "thin"}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def printable(text):
    """Its parts of two characters or more that are plain ASCII: the model is random."""
    return re.findall(r"[!-~]{2,}", text)


def text_of(events):
    return "".join(c.get("text") or c.get("delta", {}).get("content") or "" for e in events[:-1] for c in e["choices"])


class ServeCase(Case):
    """One server for a class, with a draft."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.target / "chat_template.jinja").write_text(TEMPLATE)
        cls.server = cls.serve("-d", cls.draft, *cls.arguments)
        cls.client = Client(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        super().tearDownClass()

    @classmethod
    def serve(cls, *arguments, address="localhost:0"):
        return cls.pilotfish.serve("serve", cls.target, address, *arguments)

    def server_that_ends_at(self, *tokens):
        """A server of the same target whose texts end at these tokens."""
        ends = self.root / "ends"
        shutil.copytree(self.target, ends, dirs_exist_ok=True)
        config = json.loads((ends / "config.json").read_text())
        (ends / "config.json").write_text(json.dumps({**config, "eos_token_id": tokens}))
        return self.pilotfish.serve("serve", ends, "localhost:0")

    def greedy(self, prompt=PROMPT, tokens=24, **more):
        return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}

    def assert_refused(self, reply, status, param=None, saying=""):
        self.assertEqual(reply.status, status, reply.body)
        self.assertEqual(set(reply.error), {"message", "type", "param", "code"})
        self.assertEqual(reply.error["param"], param)
        self.assertIn(saying, reply.error["message"])


class Texts(ServeCase):
    def test_a_completion_is_the_text_of_generate(self):
        text = self.generate("-n", 24, "--ignore-eos")["text"]
        words = printable(text)
        for stop in ((), (words[0],), ("\u0001", words[-1])):
            with self.subTest(stop):
                plain = self.generate("-n", 24, "--ignore-eos", *(a for s in stop for a in ("--stop", s)))
                reply = self.client.post(TEXT, self.greedy(stop=list(stop))).json
                self.assertEqual(reply["choices"][0]["text"], plain["text"])
                self.assertEqual(reply["choices"][0]["finish_reason"], plain["finish_reason"])
                self.assertEqual(reply["usage"]["completion_tokens"], len(plain["tokens"]))
                self.assertEqual(reply["usage"]["prompt_tokens"], len(plain["prompt_tokens"]))

    def test_a_seeded_completion_is_the_text_of_generate(self):
        for speculates in (True, False):
            plain = self.generate("-n", 24, "--ignore-eos", "--temperature", 0.8, "--top-k", 40, "--seed", 5)
            value = self.greedy(temperature=0.8, top_k=40, seed=5,
                                speculative={"enabled": speculates, "method": "coupled"})
            self.assertEqual(self.client.post(TEXT, value).json["choices"][0]["text"], plain["text"])

    def test_penalties_and_biases_are_those_of_generate(self):
        first = self.generate("-n", 1, "--ignore-eos")["tokens"][0]
        texts = set()
        for flags, value in (((), {}), (("--repetition-penalty", 1.5), {"repetition_penalty": 1.5}),
                             (("--frequency-penalty", 1.5, "--presence-penalty", 0.5),
                              {"frequency_penalty": 1.5, "presence_penalty": 0.5}),
                             (("--logit-bias", f"{first}=-100"), {"logit_bias": {str(first): -100}})):
            plain = self.generate("-n", 24, "--ignore-eos", *flags)
            reply = self.client.post(TEXT, self.greedy(**value)).json
            self.assertEqual(reply["choices"][0]["text"], plain["text"], value)
            texts.add(plain["text"])
        self.assertEqual(len(texts), 4)

    def test_min_tokens_keeps_a_text_from_ending(self):
        value = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}
        made = self.generate("-n", 8, "--ignore-eos")["tokens"]
        with self.server_that_ends_at(made[2]) as server:
            client = Client(server.address)
            self.assertLess(client.post(TEXT, value).json["usage"]["completion_tokens"], 8)
            reply = client.post(TEXT, {**value, "min_tokens": 8}).json
            self.assertEqual(reply["usage"]["completion_tokens"], 8)

    def test_a_stream_is_the_same_text_in_pieces(self):
        text = self.generate("-n", 24, "--ignore-eos")["text"]
        held = text[-3:] + "\u0001"   # its beginning ends the text: that is held back until the end
        for value in (self.greedy(), self.greedy(stop=[printable(text)[0]]), self.greedy(stop=[held]), self.greedy(echo=True)):
            whole = self.client.post(TEXT, value).json
            events = self.client.stream(TEXT, {**value, "stream_options": {"include_usage": True}})
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(text_of(events), whole["choices"][0]["text"])
            self.assertGreater(len(events), 4 if "stop" in value else 10)
            self.assertEqual(events[-2]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
            self.assertEqual(events[-2]["choices"], [])
            reasons = [c["finish_reason"] for e in events[:-1] for c in e["choices"]]
            self.assertEqual(reasons[-1], whole["choices"][0]["finish_reason"])
            self.assertEqual(set(reasons[:-1]), {None})

    def test_a_chat_is_rendered_by_the_template_of_the_model(self):
        (self.root / "chat.json").write_text(json.dumps(MESSAGES))
        plain = self.generate("-n", 12, prompt=("--chat", self.root / "chat.json"))
        value = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}
        whole = self.client.post(CHAT, value).json
        self.assertEqual(whole["object"], "chat.completion")
        message = whole["choices"][0]["message"]
        self.assertEqual((message["role"], message["content"]), ("assistant", plain["text"]))
        events = self.client.stream(CHAT, value)
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(text_of(events), plain["text"])

    def test_tokens_of_the_model_end_a_text(self):
        tokens = self.generate("-n", 8, "--ignore-eos")["tokens"]
        (self.root / "chat.json").write_text(json.dumps(MESSAGES))
        chat = self.generate("-n", 8, "--ignore-eos", prompt=("--chat", self.root / "chat.json"))["tokens"]
        with self.server_that_ends_at(tokens[3], chat[3]) as server:
            client = Client(server.address)
            for path, made, value in ((TEXT, tokens, self.greedy(tokens=8)),
                                      (CHAT, chat, {"messages": MESSAGES, "max_tokens": 8, "temperature": 0})):
                first = min(made.index(t) for t in (tokens[3], chat[3]) if t in made)
                reply = client.post(path, {**value, "ignore_eos": False}).json
                self.assertEqual((reply["choices"][0]["finish_reason"], reply["usage"]["completion_tokens"]), ("stop", first + 1))
                reply = client.post(path, {**value, "ignore_eos": True}).json
                self.assertEqual((reply["choices"][0]["finish_reason"], reply["usage"]["completion_tokens"]), ("length", 8))

    def test_tools_reach_the_template(self):
        tools = [{"type": "function", "function": {"name": "f"}}]
        count = lambda **more: self.client.post("/tokenize", {"messages": MESSAGES, **more}).json["count"]  # noqa: E731
        self.assertGreater(count(tools=tools), count())
        self.assertEqual(count(tools=tools, tool_choice="none"), count())

    def test_several_choices_have_seeds_in_a_row(self):
        value = self.greedy(temperature=0.9, seed=3, n=3, speculative={"enabled": False})
        many = self.client.post(TEXT, value).json
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2])
        for i, choice in enumerate(many["choices"]):
            one = self.client.post(TEXT, {**value, "n": 1, "seed": 3 + i}).json
            self.assertEqual(choice["text"], one["choices"][0]["text"])
        self.assertGreater(len({c["text"] for c in many["choices"]}), 1)

    def test_prompts_are_texts_or_ids(self):
        ids = self.client.post("/tokenize", {"prompt": PROMPT}).json["tokens"]
        one = self.client.post(TEXT, self.greedy()).json["choices"][0]["text"]
        many = self.client.post(TEXT, self.greedy(prompt=[PROMPT, ids])).json["choices"]
        self.assertEqual([c["text"] for c in many], [one, one])
        self.assertEqual(self.client.post("/detokenize", {"tokens": ids[1:]}).json["prompt"], PROMPT)

    def test_speculation_is_counted_and_can_be_switched_off(self):
        with_draft = self.client.post(TEXT, self.greedy(speculative={"draft_len": 4})).json
        figures = with_draft["usage"]["speculative"]
        self.assertGreater(figures["accepted"], 0)
        self.assertEqual(with_draft["usage"]["completion_tokens"],
                         1 + figures["rounds"] + figures["fallback_rounds"] + figures["accepted"])
        plain = self.client.post(TEXT, self.greedy(speculative={"enabled": False})).json
        self.assertEqual(plain["usage"]["speculative"]["drafted"], 0)
        self.assertEqual(plain["choices"][0]["text"], with_draft["choices"][0]["text"])
        short = self.client.post(TEXT, self.greedy(speculative={"draft_len": 1})).json["usage"]["speculative"]
        self.assertEqual(short["drafted"], short["rounds"])

    def test_metrics_count_the_tokens_of_requests(self):
        def count(name):
            text = self.client.get("/metrics").body.decode()
            return sum(float(v) for v in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE))
        before = count("vllm:generation_tokens_total")
        self.client.post(TEXT, self.greedy())
        self.assertEqual(count("vllm:generation_tokens_total"), before + 24)
        self.assertEqual(count("vllm:num_requests_running"), 0)

    def test_tokens_of_a_prompt_that_were_cached_are_counted(self):
        value = self.greedy(prompt="a prompt that no other test of this server has sent before", tokens=4)
        first, second = (self.client.post(TEXT, value).json["usage"] for _ in range(2))
        self.assertLess(first["prompt_tokens_details"]["cached_tokens"], second["prompt_tokens"] - 1)
        self.assertEqual(second["prompt_tokens_details"]["cached_tokens"], second["prompt_tokens"] - 1)
        value = {"messages": [{"role": "user", "content": "another prompt that is new"}], "max_tokens": 2, "temperature": 0}
        created, usage = (self.client.post("/v1/messages", value).json["usage"] for _ in range(2))
        self.assertGreater(created["cache_creation_input_tokens"], 0)
        self.assertEqual(created["cache_creation_input_tokens"] + created["cache_read_input_tokens"], usage["cache_read_input_tokens"])
        streamed = self.client.stream("/v1/messages", value)
        self.assertEqual((usage["input_tokens"], usage["cache_creation_input_tokens"]), (1, 0))
        self.assertGreater(usage["cache_read_input_tokens"], 4)
        for event in streamed:
            found = event.get("usage") or event.get("message", {}).get("usage")
            if found:
                self.assertEqual(found["cache_read_input_tokens"], usage["cache_read_input_tokens"], event)

    def test_drafted_text_is_marked_where_that_is_asked_for(self):
        events = self.client.stream(TEXT, self.greedy(speculative={"mark": True, "draft_len": 4}))[:-2]
        marks = [e["choices"][0]["drafted"] for e in events]
        self.assertEqual({True, False}, set(marks))
        self.assertNotIn("drafted", self.client.stream(TEXT, self.greedy())[0]["choices"][0])

        def marks_of(events):
            return [c["drafted"] for e in events if e != "[DONE]" for c in e["choices"] if c["text"] for _ in c["text"]]
        text = text_of([*events, None])
        held = self.greedy(speculative={"mark": True, "draft_len": 4}, stop=[w + "\u0001" for w in printable(text)])
        self.assertEqual(marks_of(self.client.stream(TEXT, held)), marks_of(events))

    def test_32_requests_at_once_are_each_what_it_is_alone(self):
        prompts = [f"the {i} thin other" for i in range(32)]
        values = [self.greedy(prompt=p, tokens=16, speculative={"enabled": i % 2 == 0}) for i, p in enumerate(prompts)]
        alone = [self.client.post(TEXT, v).json["choices"][0]["text"] for v in values]
        together = at_once([lambda v=v: self.client.post(TEXT, v) for v in values])
        self.assertEqual([r.json["choices"][0]["text"] for r in together], alone)


class Drafters(ServeCase):
    """Drafters without a model, and one that has both, follow every request."""

    @classmethod
    def setUpClass(cls):
        Case.setUpClass.__func__(cls)

    @classmethod
    def tearDownClass(cls):
        Case.tearDownClass.__func__(cls)

    def check(self, *arguments):
        prompts = [f"the {i} thin other the {i} thin" for i in range(12)]
        values = [self.greedy(prompt=p, tokens=16, speculative={"draft_len": 4}) for p in prompts]
        with self.serve(*arguments) as server:
            client = Client(server.address)
            plain = [{**v, "speculative": {"enabled": False}} for v in values]
            alone = [client.post(TEXT, v).json["choices"][0]["text"] for v in plain]
            replies = at_once([lambda v=v: client.post(TEXT, v) for v in values])
        self.assertEqual([r.json["choices"][0]["text"] for r in replies], alone)
        drafted = [r.json["usage"]["speculative"]["drafted"] for r in replies]
        self.assertGreater(sum(drafted), 0)

    def test_ngram(self):
        self.check("--drafter", "ngram")

    def test_suffix(self):
        self.check("--drafter", "suffix", "--suffix-corpus", "1M")

    def test_cascade(self):
        self.check("--drafter", "cascade", "-d", self.draft)

    def check_chosen(self, server, offered):
        """Requests at once, each with the next drafter, have the text of plain decoding; the figures name the drafter."""
        client = Client(server.address)
        plain = client.post(TEXT, self.greedy(speculative={"enabled": False})).json
        self.assertIsNone(plain["usage"]["speculative"]["drafter"])
        names = [*offered, *offered, None]
        replies = at_once([lambda d=d: client.post(TEXT, self.greedy(speculative={"draft_len": 4, "drafter": d})) for d in names])
        self.assertEqual([r.status for r in replies], [200] * len(names), replies[0].body)
        self.assertEqual({r.json["choices"][0]["text"] for r in replies}, {plain["choices"][0]["text"]})
        self.assertEqual([r.json["usage"]["speculative"]["drafter"] for r in replies], [*names[:-1], offered[0]])
        return client

    def test_each_request_has_the_drafter_that_it_names(self):
        offered = ["model", "suffix", "cascade", "ngram"]
        with self.serve("-d", self.draft, "--drafter", ",".join(offered)) as server:
            client = self.check_chosen(server, offered)
            self.assertEqual(client.get("/v1/models").json["data"][0]["drafters"], offered)
            for name in offered:
                self.assertRegex(client.get("/metrics").body.decode(), rf'pilotfish:drafter_drafts_total{{[^}}]*drafter="{name}"}} [1-9]')
            self.assert_refused(client.post(TEXT, self.greedy(speculative={"drafter": "tree"})), 400, "speculative.drafter",
                                "speculative.drafter is tree, but what is offered is model, suffix, cascade, ngram")
            self.assertEqual(client.post(TEXT, self.greedy(speculative={"drafter": "tree", "enabled": False})).status, 200)
        with self.serve() as server:
            self.assert_refused(Client(server.address).post(TEXT, self.greedy(speculative={"drafter": "model"})), 400,
                                "speculative.drafter", "there is no drafter here")

    def test_each_request_has_the_drafter_of_a_worker_that_it_names(self):
        offered = ["suffix", "model"]
        with self.pilotfish.serve("worker", self.draft, self.socket("chosen"), "--drafter", ",".join(offered)), \
                self.serve("--draft-worker", self.socket("chosen"), "--max-sequences", 4) as server:
            client = self.check_chosen(server, offered)
            reply = client.post(TEXT, self.greedy(speculative={"drafter": "ngram"}))
            self.assert_refused(reply, 400, None, "drafter is ngram, but what is offered is suffix, model")
        with self.pilotfish.serve("worker", self.draft, self.socket("asked"), "--drafter", ",".join(offered)), \
                self.serve("--draft-worker", self.socket("asked"), "--drafter", "model") as server:
            reply = Client(server.address).post(TEXT, self.greedy()).json
            self.assertEqual(reply["usage"]["speculative"]["drafter"], "model")


class OtherApis(ServeCase):
    """OpenAI's responses and Anthropic's messages: the text of the same chat."""

    def setUp(self):
        value = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}
        self.wanted = self.client.post(CHAT, value).json["choices"][0]["message"]["content"]

    def test_messages(self):
        value = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}
        whole = self.client.post("/v1/messages", value).json
        self.assertEqual(whole["content"], [{"type": "text", "text": self.wanted}])
        self.assertEqual((whole["stop_reason"], whole["usage"]["output_tokens"]), ("max_tokens", 12))
        events = self.client.stream("/v1/messages", value)
        self.assertEqual("".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta"), self.wanted)
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "message_stop"))
        cut = self.client.post("/v1/messages", {**value, "stop_sequences": ["\u0001", self.wanted[3]]}).json
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", self.wanted[3]))
        counted = self.client.post("/v1/messages/count_tokens", {"messages": MESSAGES}).json["input_tokens"]
        parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        self.assertEqual(counted, sum(whole["usage"][part] for part in parts))

    def test_errors_of_messages_have_their_shape(self):
        for value in ({"messages": MESSAGES}, {"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]}):
            reply = self.client.post("/v1/messages", value)
            self.assertEqual(reply.status, 400)
            self.assertEqual((reply.json["type"], reply.error["type"]), ("error", "invalid_request_error"))

    def test_responses(self):
        value = {"input": MESSAGES, "max_output_tokens": 12, "temperature": 0}
        whole = self.client.post("/v1/responses", value).json
        self.assertEqual(whole["output"][0]["content"][0]["text"], self.wanted)
        self.assertEqual((whole["status"], whole["usage"]["output_tokens"]), ("incomplete", 12))
        events = self.client.stream("/v1/responses", value)
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"), self.wanted)
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["text"], self.wanted)
        self.assert_refused(self.client.post("/v1/responses", {**value, "previous_response_id": "resp_1"}), 400,
                            "previous_response_id")

    def test_the_description_names_paths_that_are_there(self):
        description = self.client.get("/openapi.json").json
        for path, methods in description["paths"].items():
            for method in methods:
                reply = self.client.request(method.upper(), path.replace("{model}", "target"), "{}" if method == "post" else None)
                self.assertNotIn(reply.status, (404, 405, 500), path)


class Tools(ServeCase):
    """A model that is made to call a tool: three tokens are the call, and biases choose them one after the other."""

    PARTS = ["<tool_call>", '{"name":"f","arguments":{"x":[1,"e"]}}', "</tool_call>"]
    TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.root / "caller"
        shutil.copytree(cls.target, model)
        tiny_llama.add_tokens(model, cls.PARTS)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        cls.ids = [t["id"] for t in tokenizer["added_tokens"][-3:]]
        tokenizer["added_tokens"][-2]["special"] = False
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "eos_token_id": cls.ids[-1]}))
        (model / "chat_template.jinja").write_text(TEMPLATE + "{#- <tool_call> -#}")
        cls.caller = cls.pilotfish.serve("serve", model, "localhost:0")
        cls.client = Client(cls.caller.address)

    @classmethod
    def tearDownClass(cls):
        cls.caller.end()
        super().tearDownClass()

    def value(self, **more):
        biases = {str(i): b for i, b in zip(self.ids, (100, 98, 97))}
        return {"messages": MESSAGES, "max_tokens": 8, "temperature": 0, "logit_bias": biases, "frequency_penalty": 2,
                "presence_penalty": 2, **more}

    def test_a_call_is_read_out_of_the_text(self):
        whole = self.client.post(CHAT, self.value(tools=self.TOOLS)).json["choices"][0]
        self.assertEqual((whole["finish_reason"], whole["message"]["content"]), ("tool_calls", None))
        [call] = whole["message"]["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "f"))
        self.assertEqual(json.loads(call["function"]["arguments"]), {"x": [1, "e"]})
        self.assertRegex(call["id"], "^[0-9a-zA-Z]{9}$")
        events = self.client.stream(CHAT, self.value(tools=self.TOOLS))
        deltas = [t for e in events[:-1] for c in e["choices"] for t in c["delta"].get("tool_calls", ())]
        self.assertEqual(deltas[0]["function"]["name"], "f")
        self.assertEqual("".join(d["function"]["arguments"] for d in deltas), call["function"]["arguments"])
        self.assertEqual(text_of(events), "")
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "tool_calls")

    def test_a_call_can_be_forced(self):
        schema = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": ["a", "b"]}}, "required": ["x", "y"]}
        tools = [{"type": "function", "function": {"name": n, "parameters": schema}} for n in ("f", "other")]
        for choice, names in (("required", {"f", "other"}), ({"type": "function", "function": {"name": "other"}}, {"other"})):
            reply = self.client.post(CHAT, {"messages": MESSAGES, "max_tokens": 120, "temperature": 0, "tools": tools, "tool_choice": choice})
            choice = reply.json["choices"][0]
            self.assertEqual(choice["finish_reason"], "tool_calls", reply.body)
            [call] = choice["message"]["tool_calls"]
            self.assertIn(call["function"]["name"], names)
            found = json.loads(call["function"]["arguments"])
            self.assertEqual((set(found), type(found["x"])), ({"x", "y"}, int))
        value = {"messages": MESSAGES, "max_tokens": 120, "temperature": 0, "tools": [{"name": "f", "input_schema": schema}]}
        reply = self.client.post("/v1/messages", {**value, "tool_choice": {"type": "any"}}).json
        self.assertEqual((reply["stop_reason"], reply["content"][0]["type"]), ("tool_use", "tool_use"))

    def test_without_such_a_tool_it_is_text(self):
        other = [{"type": "function", "function": {"name": "g"}}]
        for more, text in (({}, self.PARTS[1]), ({"tools": self.TOOLS, "tool_choice": "none"}, self.PARTS[1]),
                           ({"tools": other}, "".join(self.PARTS))):
            choice = self.client.post(CHAT, self.value(**more)).json["choices"][0]
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("stop", text))
            self.assertNotIn("tool_calls", choice["message"])
            self.assertEqual(text_of(self.client.stream(CHAT, self.value(**more))), text)

    def test_other_apis_have_calls_of_their_own_form(self):
        value = self.value(tools=[{"name": "f", "input_schema": {"type": "object"}}])
        message = self.client.post("/v1/messages", value).json
        self.assertEqual(message["stop_reason"], "tool_use")
        [block] = message["content"]
        self.assertEqual((block["type"], block["name"], block["input"]), ("tool_use", "f", {"x": [1, "e"]}))
        events = self.client.stream("/v1/messages", value)
        self.assertEqual([e["type"] for e in events], ["message_start", "content_block_start", "content_block_delta",
                                                       "content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(json.loads(events[2]["delta"]["partial_json"]), {"x": [1, "e"]})
        value = {**self.value(tools=[{"type": "function", "name": "f"}]), "input": MESSAGES, "max_output_tokens": 8}
        del value["messages"], value["max_tokens"]
        [item] = self.client.post("/v1/responses", value).json["output"]
        self.assertEqual((item["type"], item["name"], json.loads(item["arguments"])), ("function_call", "f", {"x": [1, "e"]}))
        events = self.client.stream("/v1/responses", value)
        self.assertEqual([i["name"] for i in events[-1]["response"]["output"]], ["f"])

    def test_the_result_of_a_call_goes_back(self):
        call = self.client.post(CHAT, self.value(tools=self.TOOLS)).json["choices"][0]["message"]
        back = [*MESSAGES, {**call, "content": ""}, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "5"}]
        self.assertEqual(self.client.post(CHAT, self.value(messages=back, tools=self.TOOLS)).status, 200)


class Forms(ServeCase):
    """Texts that a grammar holds, and log-probabilities. The model is random: without the grammar it makes none of this."""

    SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["red", "green"]}, "n": {"type": "integer"},
                                               "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
              "required": ["kind", "n", "list"], "additionalProperties": False}

    def ask(self, path=CHAT, **more):
        value = {"max_tokens": 120, "temperature": 0, **more}
        value |= {"messages": MESSAGES} if path == CHAT else {"prompt": PROMPT}
        return self.client.post(path, value)

    def assert_document(self, text):
        found = json.loads(text)
        self.assertEqual(set(found), {"kind", "n", "list"})
        self.assertIn(found["kind"], ("red", "green"))
        self.assertEqual((type(found["n"]), type(found["list"])), (int, list))

    def test_a_schema_holds_the_text(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": self.SCHEMA}}
        texts = set()
        for speculates in (True, False):
            for seed in range(4):
                sampled = {"temperature": 1.0, "seed": seed} if seed else {}
                reply = self.ask(response_format=form, speculative={"enabled": speculates, "method": "coupled" if seed else "auto"},
                                 **sampled).json["choices"][0]
                self.assertEqual(reply["finish_reason"], "stop", reply)
                self.assert_document(reply["message"]["content"])
                texts.add((seed, reply["message"]["content"]))
        self.assertEqual(len(texts), 4)     # the same with a drafter and without
        value = {"messages": MESSAGES, "max_tokens": 120, "temperature": 0, "response_format": form}
        self.assert_document(text_of(self.client.stream(CHAT, value)))
        flat = {"input": MESSAGES, "max_output_tokens": 120, "temperature": 0,
                "text": {"format": {"type": "json_schema", "name": "x", "schema": self.SCHEMA}}}
        self.assert_document(self.client.post("/v1/responses", flat).json["output"][0]["content"][0]["text"])

    def test_a_grammar_holds_the_text(self):
        for grammar, pattern in (('root ::= "yes" | "no"', "yes|no"), ("root ::= [a-c]{5} word\nword ::= [0-9] | \"x\"", "[a-c]{5}[0-9x]")):
            for path in (TEXT, CHAT):
                choice = self.ask(path, grammar=grammar).json["choices"][0]
                self.assertRegex(choice.get("text") or choice["message"]["content"], f"^({pattern})$")
                self.assertEqual(choice["finish_reason"], "stop")
        many = at_once([lambda i=i: self.ask(TEXT, grammar=f'root ::= "{i}" [0-9]+ "."', max_tokens=200, temperature=1, seed=i)
                        for i in range(10, 26)])
        for i, reply in enumerate(many, 10):
            self.assertEqual(reply.status, 200, reply.body)
            self.assertRegex(reply.json["choices"][0]["text"], rf"^{i}[0-9]+\.?$")

    def test_an_object_begins_as_one(self):
        text = self.ask(response_format={"type": "json_object"}).json["choices"][0]["message"]["content"]
        self.assertEqual(text[0], "{")

    def test_forms_that_are_none_are_refused(self):
        for more, param, saying in (
                ({"grammar": "root ::= ("}, "grammar", "line 1"), ({"grammar": "root ::= root"}, "grammar", "left recursion"),
                ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}}, "response_format", "not"),
                ({"tools": Tools.TOOLS, "tool_choice": "required"}, "tool_choice", "no form of calls")):
            self.assert_refused(self.ask(**more), 400, param, saying)

    def test_a_client_that_leaves_ends_its_form(self):
        for _ in range(20):
            connection = Connection(self.server.address)
            connection.request("POST", TEXT, json.dumps({"prompt": PROMPT, "max_tokens": 1900, "grammar": "root ::= [a-z]+ [0-9]"}))
            time.sleep(0.02)
            connection.close()
        self.assertEqual(self.ask(TEXT, grammar='root ::= "yes"').json["choices"][0]["text"], "yes")

    def test_logprobs_of_a_chat(self):
        value = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "logprobs": True, "top_logprobs": 3}
        choice = self.client.post(CHAT, value).json["choices"][0]
        entries = choice["logprobs"]["content"]
        self.assertEqual(len(entries), 12)
        self.assertEqual(bytes(b for e in entries for b in e["bytes"]).decode(errors="replace"), choice["message"]["content"])
        for e in entries:
            self.assertEqual([t["token"] for t in e["top_logprobs"]][0], e["token"])
            found = [t["logprob"] for t in e["top_logprobs"]]
            self.assertEqual((len(found), found), (3, sorted(found, reverse=True)))
            self.assertTrue(found[0] == e["logprob"] <= 0 and sum(math.exp(p) for p in found) <= 1.00001)
        events = self.client.stream(CHAT, value)[:-1]
        self.assertEqual([e for v in events for c in v["choices"] for e in (c["logprobs"] or {}).get("content", ())], entries)
        self.assertIsNone(self.client.post(CHAT, {**value, "logprobs": False, "top_logprobs": 0}).json["choices"][0]["logprobs"])

    def test_logprobs_of_a_completion(self):
        value = self.greedy(tokens=8, logprobs=2)
        choice = self.client.post(TEXT, value).json["choices"][0]
        found = choice["logprobs"]
        self.assertEqual([len(found[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [8] * 4)
        self.assertEqual(found["text_offset"][0], 0)
        self.assertEqual(found["text_offset"], sorted(found["text_offset"]))
        self.assertEqual(choice["text"], self.client.post(TEXT, self.greedy(tokens=8)).json["choices"][0]["text"])
        plain = self.client.post(TEXT, {**value, "speculative": {"enabled": False}}).json["choices"][0]["logprobs"]
        self.assertEqual(plain, found)
        events = self.client.stream(TEXT, value)[:-1]
        self.assertEqual([t for v in events for c in v["choices"] for t in (c["logprobs"] or {}).get("tokens", ())], found["tokens"])


class Refusals(ServeCase):
    def test_what_is_not_supported_is_refused_by_name(self):
        for more, param in (({"logit_bias": {"99999": 1}}, "logit_bias"), ({"frequency_penalty": 3}, "frequency_penalty"),
                            ({"best_of": 3}, "best_of"), ({"nonesuch": 1}, "nonesuch"), ({"top_p": 2}, "top_p"),
                            ({"max_tokens": 1 << 20}, "prompt"), ({"prompt": [1 << 20]}, "prompt"), ({"prompt": ""}, None)):
            reply = self.client.post(TEXT, self.greedy(**more))
            if param is None:   # a BOS alone is a prompt
                self.assertEqual(reply.status, 200)
            else:
                self.assert_refused(reply, 400, param)

    def test_paths_methods_and_models(self):
        self.assert_refused(self.client.get("/none"), 404)
        self.assert_refused(self.client.get(CHAT), 405)
        self.assert_refused(self.client.post("/health", {}), 405)
        self.assert_refused(self.client.post(TEXT, self.greedy(model="other")), 404, "model")
        self.assertEqual(self.client.post(TEXT, self.greedy(model="target", tokens=1)).status, 200)
        self.assertEqual(self.client.get("/v1/models").json["data"][0]["id"], "target")
        self.assertEqual(self.client.get("/v1/models/target").json["id"], "target")
        self.assert_refused(self.client.get("/v1/models/other"), 404, "model")

    def test_hostile_bodies_are_refused_and_the_server_goes_on(self):
        for body in ("", "{", "[]", "null", "\x00", "{" * 5000, "[" * 100000, '{"prompt": "\\ud800"}', b'{"prompt": "\xff"}',
                     '{"prompt": ' + "[" * 200 + "]" * 200 + "}", '{"messages": [' + "{}," * 100000 + "{}]}"):
            for path in (TEXT, CHAT, "/tokenize", "/detokenize"):
                self.assertIn(self.client.post(path, body).status, (400, 413))
        self.assertEqual(self.client.get("/health").status, 200)

    def test_a_body_that_is_too_long_is_refused(self):
        declared = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n"
        self.assertEqual(send_raw(self.server.address, declared)[:12], b"HTTP/1.1 413")
        endless = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"fffff\r\n" + (
            b"x" * 0xFFFFF + b"\r\n" + b"fffff\r\n") * 12
        self.assertIn(send_raw(self.server.address, endless)[:12], (b"HTTP/1.1 413", b""))
        self.assertEqual(self.client.get("/health").status, 200)

    def test_headers_that_are_too_long_are_refused(self):
        answer = send_raw(self.server.address, b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n")
        self.assertNotIn(b" 200 ", answer[:20])
        self.assertEqual(self.client.get("/health").status, 200)

    def test_pages_of_other_sites_are_refused(self):
        reply = self.client.post(TEXT, self.greedy(), headers={"Origin": "http://elsewhere.example"})
        self.assert_refused(reply, 403)
        own = {"Origin": f"http://{self.server.address}"}
        self.assertEqual(self.client.post(TEXT, self.greedy(tokens=1), headers=own).status, 200)


class Clients(ServeCase):
    def wait_idle(self, seconds=20):
        """Until a short request is answered: the one session is free."""
        begin = time.monotonic()
        self.assertEqual(self.client.post(TEXT, self.greedy(tokens=1)).status, 200)
        self.assertLess(time.monotonic() - begin, seconds)

    def test_500_connections_opened_and_left(self):
        host, port = self.server.address.rsplit(":", 1)
        idle = [socket.create_connection((host, int(port))) for _ in range(500)]
        try:
            self.wait_idle()
        finally:
            for s in idle:
                s.close()
        self.wait_idle()

    def leave(self, address, n_tokens, reads):
        """A client that asks for a text and closes its connection, after its first bytes or at once."""
        if reads:
            connection, response = Client(address).open_stream(TEXT, self.greedy(tokens=n_tokens))
            response.read(10)
            response.close()
        else:
            connection = Connection(address)
            connection.request("POST", TEXT, json.dumps(self.greedy(tokens=n_tokens)))
        connection.close()

    def test_texts_whose_clients_are_gone_are_given_up(self):
        with self.serve("--simulate-step-ms", 10, "--max-sequences", 2) as server:   # 1900 tokens take 19 s
            for i in range(12):
                self.leave(server.address, 1900, reads=i < 2)
            begin = time.monotonic()
            reply = Client(server.address).post(TEXT, self.greedy(tokens=1))
            self.assertEqual(reply.status, 200, reply.body)
            self.assertLess(time.monotonic() - begin, 10)

    def test_memory_is_bounded_over_a_thousand_texts_that_are_given_up(self):
        def memory_kb(what="VmRSS"):
            status = Path(f"/proc/{self.server.process.pid}/status").read_text()
            return int(re.search(what + r":\s+(\d+)", status)[1])
        if memory_kb("VmSize") > 1 << 30:
            self.skipTest("a sanitizer, which reserves terabytes, keeps freed memory")
        for _ in range(200):
            self.leave(self.server.address, 1900, reads=False)
        self.wait_idle()
        before = memory_kb()
        for _ in range(800):
            self.leave(self.server.address, 1900, reads=False)
        self.wait_idle()
        self.assertLess(memory_kb() - before, 20_000)

    def test_a_client_that_reads_slowly_gets_all_of_it(self):
        value = self.greedy(tokens=1900)
        connection, response = self.client.open_stream(TEXT, value)
        time.sleep(1.0)
        self.wait_idle()    # others are served meanwhile
        text = response.read().decode()
        connection.close()
        events = [json.loads(p[6:]) for p in text.split("\n\n") if p and p != "data: [DONE]"]
        whole = self.client.post(TEXT, value).json["choices"][0]["text"]
        self.assertEqual(text_of([*events, None]), whole)
        self.assertTrue(text.endswith("data: [DONE]\n\n"))


class Service(ServeCase):
    def test_keys_are_asked_for(self):
        path = self.root / "keys"
        path.write_text("# of the tests\nfirst\n  second \n")
        with self.serve("--api-key-file", path) as server:
            self.assertEqual(Client(server.address).get("/health").status, 200)
            for key in (None, "third", "firs", "first second"):
                self.assert_refused(Client(server.address, key).get("/v1/models"), 401)
            for key in ("first", "second"):
                self.assertEqual(Client(server.address, key).get("/v1/models").status, 200)
            other = Client(server.address).get("/v1/models", headers={"X-Api-Key": "second"})
            self.assertEqual(other.status, 200)

    def test_a_key_file_without_keys_is_a_failure(self):
        path = self.root / "nothing"
        path.write_text("# none\n\n")
        self.assert_fails("serve", "-m", self.target, "--listen", "localhost:0", "--api-key-file", path,
                          saying=["nothing", "no API key"])

    def make_certificate(self, name):
        certificate, key = self.root / f"{name}.pem", self.root / f"{name}.key"
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                            "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
                            certificate], check=True, capture_output=True)
        except FileNotFoundError:
            self.skipTest("there is no openssl to make a certificate with")
        return certificate, key

    def test_tls_is_spoken_with_a_certificate(self):
        certificate, key = self.make_certificate("one")
        text = self.client.post(TEXT, self.greedy()).json["choices"][0]["text"]
        with self.serve("--tls-cert", certificate, "--tls-key", key) as server:
            context = ssl.create_default_context(cafile=certificate)
            ask = lambda value: urllib.request.urlopen(urllib.request.Request(  # noqa: E731
                f"https://{server.address}{TEXT}", json.dumps(value).encode()), context=context, timeout=QUICKLY).read().decode()
            self.assertEqual(json.loads(ask(self.greedy()))["choices"][0]["text"], text)
            events = ask(self.greedy(stream=True)).split("\n\n")
            self.assertEqual(text_of([json.loads(e[6:]) for e in events if e.startswith("data: {")] + [None]), text)
            replies = at_once([lambda: json.loads(ask(self.greedy()))["choices"][0]["text"]] * 8)
            self.assertEqual(set(replies), {text})
            with self.assertRaisesRegex(urllib.error.URLError, "CERTIFICATE"):
                urllib.request.urlopen(f"https://{server.address}/health", timeout=QUICKLY)
            self.assertNotIn(b"200", send_raw(server.address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"))
            self.assertEqual(json.loads(ask(self.greedy()))["choices"][0]["text"], text)

    def test_a_certificate_that_does_not_fit_is_a_failure(self):
        certificate, key = self.make_certificate("one")
        _, other = self.make_certificate("two")
        serve = ["serve", "-m", self.target, "--listen", "localhost:0", "--tls-cert"]
        self.assert_fails(*serve, certificate, "--tls-key", other, saying=["certificate", "belong together"])
        self.assert_fails(*serve, key, "--tls-key", key, saying=["PEM"])
        self.assert_fails(*serve, self.root / "none.pem", "--tls-key", key, saying=["none.pem"])
        self.assertEqual(self.pilotfish.run(*serve, certificate).code, 2)

    def test_the_page_takes_nothing_from_elsewhere(self):
        reply = self.client.get("/")
        self.assertEqual(reply.status, 200)
        self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
        self.assertNotRegex(reply.body.decode(), r"""(src|href)=["']|@import|url\(""")

    def test_a_worker_behind_an_address_drafts(self):
        with self.pilotfish.serve("worker", self.draft, self.socket("worker")), \
                self.serve("--draft-worker", self.socket("worker"), "--max-sequences", 4) as server:
            replies = at_once([lambda: Client(server.address).post(TEXT, self.greedy())] * 6)
            plain = self.generate("-n", 24, "--ignore-eos")["text"]
            self.assertEqual({r.json["choices"][0]["text"] for r in replies}, {plain})
            self.assertGreater(sum(r.json["usage"]["speculative"]["drafted"] for r in replies), 0)

    def test_texts_wait_for_room_in_the_cache(self):
        with self.serve("--kv-sequences", 1, "--context", 512) as server:
            values = [self.greedy(f"the {i} thin other", tokens=100) for i in range(16)]
            replies = at_once([lambda v=v: Client(server.address).post(TEXT, v) for v in values])
            self.assertEqual([r.status for r in replies], [200] * 16)

    def test_a_unix_socket_and_a_drafter_without_a_model(self):
        with self.serve("--drafter", "ngram", address=self.socket("serve")) as server:
            reply = Client(server.address).post(TEXT, self.greedy()).json
            self.assertEqual(reply["choices"][0]["text"], self.generate("-n", 24, "--ignore-eos")["text"])
            self.assertIn("speculative", reply["usage"])

    def test_a_model_without_a_template_serves_completions(self):
        with self.pilotfish.serve("serve", self.draft, "localhost:0") as server:
            client = Client(server.address)
            self.assertEqual(client.post(TEXT, self.greedy(tokens=1)).status, 200)
            self.assert_refused(client.post(CHAT, {"messages": MESSAGES}), 400, "messages", "--chat-template")

    def test_sigterm_finishes_what_runs_and_refuses_what_is_new(self):
        server = self.serve("--simulate-step-ms", 5)
        connection, response = Client(server.address).open_stream(TEXT, self.greedy(tokens=200))
        response.read(10)
        waiting = Connection(server.address)
        waiting.connect()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        waiting.request("POST", TEXT, json.dumps(self.greedy()))
        self.assertEqual(waiting.getresponse().status, 503)
        text = response.read().decode()
        self.assertTrue(text.endswith("data: [DONE]\n\n"), text[-200:])
        for each in (connection, waiting):
            each.close()
        self.assertEqual(server.process.wait(QUICKLY), 0)
        server.end()

    def test_an_address_that_is_taken_is_a_failure(self):
        self.assert_fails("serve", "-m", self.target, "--listen", self.server.address, saying=["address in use"])


if __name__ == "__main__":
    main()
