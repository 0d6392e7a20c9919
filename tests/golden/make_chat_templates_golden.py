#!/usr/bin/env python3
"""Renders the templates of tests/golden/chat_templates/ as transformers' apply_chat_template does.

    python3 tests/golden/make_chat_templates_golden.py

Needs the package transformers; its environment (Jinja 2, sandboxed) renders. The templates are written in the idioms of published
ones, not copied. The texts go to rendered.json: null where Jinja raises an error, and {"raises": message} where the template
itself does. A date stands there as its format between U+0001 and U+0002, since chat_styles_test runs on another day.
"""
import json
from pathlib import Path

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

FOLDER = Path(__file__).resolve().parent / "chat_templates"
CHATML = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
LLAMA = {"bos_token": "<s>", "eos_token": "</s>"}
LLAMA3 = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
TOKENS = {
    "gemma": {"bos_token": "<bos>", "eos_token": "<eos>"}, "gemma3": {"bos_token": "<bos>", "eos_token": "<eos>"},
    "llama3": LLAMA3, "llama31_tools": LLAMA3, "llama32_date": LLAMA3, "chatml": CHATML, "qwen2": CHATML,
    "qwen25_tools": CHATML, "qwen3_thinking": CHATML, "deepseek_v3": {"bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
                                                                     "eos_token": "<\uff5cend\u2581of\u2581sentence\uff5c>"},
}

USER = {"role": "user", "content": "What is 2 < 3 & \"why\"?"}
SYSTEM = {"role": "system", "content": "  You are terse. /no_think  "}
ANSWER = {"role": "assistant", "content": "\n\nBecause it's so.\n"}
MORE = {"role": "user", "content": " \u00c9t\u00e9 \u2014 \u4f60\u597d \U0001f642\nnew line\ttab "}
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "The city's name: \u201cParis\u201d"},
            "days": {"type": ["integer", "string"]},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "at": {"type": "array", "items": {"type": "number"}, "nullable": True},
            "more": {"type": "object", "properties": {"wind": {"type": "boolean"}}, "required": ["wind"]}}},
        "return": {"type": "string", "description": "<b>text</b>"}}},
    {"type": "function", "function": {"name": "now", "description": "The time.",
                                      "parameters": {"type": "object", "properties": {}}}},
]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdef123", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 2, "at": [1.5, 2.0, -1e-7], "x": None, "y": True}}}]}
RESULT = {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "{\"t\": 21.5}"}
PARTS = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " See "}, {"type": "text", "text": "this?"}]}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}

CONVERSATIONS = {
    "user": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "turns": {"messages": [SYSTEM, USER, ANSWER, MORE]},
    "ended": {"messages": [USER, ANSWER, MORE, ANSWER], "add_generation_prompt": False},
    "tools": {"messages": [SYSTEM, USER], "tools": TOOLS},
    "call": {"messages": [USER, CALL, RESULT, {"role": "assistant", "content": "21.5 degrees"}, MORE], "tools": TOOLS},
    "calls": {"messages": [SYSTEM, USER, {**CALL, "content": None, "tool_calls": CALL["tool_calls"] * 2}, RESULT, RESULT],
              "tools": TOOLS},
    "tools_apart": {"messages": [USER], "tools": TOOLS, "tools_in_user_message": False, "date_string": "1 Jan 2025",
                    "builtin_tools": ["code_interpreter", "get_weather"]},
    "parts": {"messages": [{"role": "system", "content": [{"type": "text", "text": "See."}]}, PARTS]},
    "two_users": {"messages": [USER, MORE]},
    "odd_role": {"messages": [USER, ANSWER, {"role": "critic", "content": "No."}]},
    "thought": {"messages": [USER, THOUGHT, MORE, {**ANSWER, "reasoning_content": "\nbecause\n"}], "enable_thinking": False},
    "no_thinking": {"messages": [USER], "enable_thinking": False, "reasoning_effort": "high"},
    "documents": {"messages": [USER], "documents": [{"title": "A", "text": "one"}, {"title": "B", "text": "two"}],
                  "controls": {"citations": True, "length": "long"}, "contexts": [" a ", "b"]},
    "empty": {"messages": []},
}


def render(template, variables):
    try:
        return template.render(tools=variables.pop("tools", None), documents=variables.pop("documents", None),
                               add_generation_prompt=variables.pop("add_generation_prompt", True), **variables)
    except jinja2.exceptions.TemplateError as error:
        raised = type(error) is jinja2.exceptions.TemplateError and error.message
        return {"raises": error.message} if raised else None
    except Exception:  # of Python, as where None is added to a text
        return None


def main():
    documents = []
    for path in sorted(FOLDER.glob("*.jinja")):
        template = _compile_jinja_template(path.read_text())
        template.globals["strftime_now"] = lambda format: f"\x01{format}\x02"
        tokens = TOKENS.get(path.stem, LLAMA)
        texts = {name: render(template, {**tokens, **value}) for name, value in CONVERSATIONS.items()}
        documents.append({"name": path.stem, "tokens": tokens, "texts": texts})
    (FOLDER / "rendered.json").write_text(
        json.dumps({"conversations": CONVERSATIONS, "templates": documents}, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
