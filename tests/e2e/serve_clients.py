"""The official clients of OpenAI and Anthropic, and the chat model of LangChain, against `pilotfish serve`, in an environment that has them. As: FILE BINARY."""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import anthropic
import openai
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from command_line import Pilotfish  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}assistant:"
MESSAGES = [{"role": "user", "content": "The list type"}]
FEW = {"temperature": 0, "max_tokens": 24}


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r}, expected {wanted!r}")


def refused(call, kind, param=None):
    try:
        call()
    except kind as error:
        expect(getattr(error, "param", param), param)
        return
    raise AssertionError(f"not refused: {kind.__name__} was expected")


def try_completions(client, model):
    whole = client.completions.create(model=model, prompt="The list type", **FEW)
    parts = client.completions.create(model=model, prompt="The list type", stream=True, **FEW)
    expect("".join(c.choices[0].text for c in parts), whole.choices[0].text)
    expect(whole.usage.completion_tokens, 24)


def try_chats(client, model):
    whole = client.chat.completions.create(model=model, messages=MESSAGES, **FEW)
    chunks = list(client.chat.completions.create(model=model, messages=MESSAGES, stream=True,
                                                 stream_options={"include_usage": True}, **FEW))
    expect("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
    expect(chunks[-1].usage.total_tokens, whole.usage.total_tokens)
    expect(whole.choices[0].finish_reason, "length")
    with client.chat.completions.stream(model=model, messages=MESSAGES, **FEW) as stream:
        expect("".join(e.delta for e in stream if e.type == "content.delta"), whole.choices[0].message.content)
    refused(lambda: client.chat.completions.create(model=model, messages=MESSAGES, logit_bias={"5": 101}),
            openai.BadRequestError, "logit_bias")
    refused(lambda: client.chat.completions.create(model="other", messages=MESSAGES), openai.NotFoundError, "model")
    return whole.choices[0].message.content


def try_responses(client, model, text):
    few = {"temperature": 0, "max_output_tokens": 24}
    whole = client.responses.create(model=model, input="The list type", **few)
    expect((whole.output_text, whole.status, whole.incomplete_details.reason), (text, "incomplete", "max_output_tokens"))
    expect(whole.usage.output_tokens, 24)
    events = list(client.responses.create(model=model, input="The list type", stream=True, **few))
    expect("".join(e.delta for e in events if e.type == "response.output_text.delta"), text)
    expect(events[-1].response.output_text, text)
    with client.responses.stream(model=model, input="The list type", **few) as stream:
        expect("".join(e.delta for e in stream if e.type == "response.output_text.delta"), text)


def try_messages(client, model, text):
    few = {"max_tokens": 24, "extra_body": {"temperature": 0}}   # newer clients have no argument of this name
    whole = client.messages.create(model=model, messages=MESSAGES, **few)
    expect((whole.content[0].text, whole.stop_reason, whole.usage.output_tokens), (text, "max_tokens", 24))
    with client.messages.stream(model=model, messages=MESSAGES, **few) as stream:
        expect("".join(stream.text_stream), text)
        expect(stream.get_final_message().usage.output_tokens, 24)
    word = text.split()[2]
    cut = client.messages.create(model=model, messages=MESSAGES, stop_sequences=["never", word], **few)
    expect((cut.stop_reason, cut.stop_sequence), ("stop_sequence", word))
    counted = client.messages.count_tokens(model=model, messages=MESSAGES)
    usage = whole.usage
    expect(counted.input_tokens, usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens)
    refused(lambda: client.messages.create(model=model, messages=[{"role": "user", "content": [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]}], max_tokens=1),
        anthropic.BadRequestError)


class Colour(BaseModel):
    name: Literal["red", "green"]
    share: int


def try_forms(client, model):
    parsed = client.chat.completions.parse(model=model, messages=MESSAGES, response_format=Colour, temperature=0, max_tokens=100)
    expect(type(parsed.choices[0].message.parsed), Colour)
    found = client.chat.completions.create(model=model, messages=MESSAGES, logprobs=True, top_logprobs=2, **FEW).choices[0]
    expect("".join(t.token for t in found.logprobs.content), found.message.content)
    expect({len(t.top_logprobs) for t in found.logprobs.content}, {2})


def try_langchain(url, model, text):
    chat = ChatOpenAI(base_url=f"{url}/v1", api_key="secret", model=model, temperature=0, max_tokens=24, max_retries=0)
    expect(chat.invoke("The list type").content, text)
    expect("".join(c.content for c in chat.stream("The list type")), text)
    long = ChatOpenAI(base_url=f"{url}/v1", api_key="secret", model=model, temperature=0, max_tokens=100, max_retries=0)
    expect(type(long.with_structured_output(Colour).invoke("The list type")), Colour)


def try_many(client, model, text):
    with ThreadPoolExecutor(32) as pool:
        calls = [pool.submit(client.chat.completions.create, model=model, messages=MESSAGES, **FEW) for _ in range(32)]
        expect({c.result().choices[0].message.content for c in calls}, {text})


def main():
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as home:
        (Path(home) / "template").write_text(TEMPLATE)
        (Path(home) / "keys").write_text("secret\n")
        pilotfish = Pilotfish(sys.argv[1], home)
        with pilotfish.serve("serve", ROOT / "models/target", "localhost:0", "-d", ROOT / "models/draft", "--chat-template",
                             Path(home) / "template", "--api-key-file", Path(home) / "keys") as server:
            url = f"http://{server.address}"
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0)
            expect([m.id for m in client.models.list()], ["target"])
            refused(openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0).models.list, openai.AuthenticationError)
            try_completions(client, "target")
            text = try_chats(client, "target")
            try_responses(client, "target", text)
            try_messages(anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0), "target", text)
            try_forms(client, "target")
            try_langchain(url, "target", text)
            try_many(client, "target", text)
    print(f"openai {openai.__version__} and anthropic {anthropic.__version__}: as they should be")


main()
