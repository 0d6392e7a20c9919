"""--chat FILE: a conversation by the model's chat template, at tokenize and generate."""

import json
import sys

sys.dont_write_bytecode = True
from cli_case import Case, main  # noqa: E402

TEMPLATE = """{%- for m in messages %}
{{- m.role + ' ' + m.content }}
{% endfor %}
{%- if add_generation_prompt %}the{% endif %}
"""
RENDERED = "user an other\nassistant thin\nthe"
MESSAGES = [{"role": "user", "content": "an other"}, {"role": "assistant", "content": "thin"}]


class Chat(Case):
    def setUp(self):
        (self.target / "chat_template.jinja").write_text(TEMPLATE)

    def file(self, value):
        path = self.root / "chat.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def test_a_conversation_is_rendered_and_tokenised_without_special_tokens(self):
        document = self.run_json("tokenize", "-m", self.target, "--chat", self.file(MESSAGES))
        self.assertEqual(document["text"], RENDERED)
        plain = self.run_json("tokenize", "-m", self.target, "-p", RENDERED, "--no-special")
        self.assertEqual(document["tokens"], plain["tokens"])
        shown = self.run_ok("tokenize", "-m", self.target, "--chat", self.file(MESSAGES)).out
        self.assertEqual(shown.decode().strip(), ",".join(map(str, plain["tokens"])))

    def test_an_object_may_hold_variables_of_the_template(self):
        value = {"messages": MESSAGES[:1], "add_generation_prompt": False}
        document = self.run_json("tokenize", "-m", self.target, "--chat", self.file(value))
        self.assertEqual(document["text"], "user an other\n")

    def test_generate_continues_the_rendered_text(self):
        tokens = self.run_json("tokenize", "-m", self.target, "--chat", self.file(MESSAGES))["tokens"]
        chat = self.run_json("generate", "-m", self.target, "--chat", self.file(MESSAGES), "-n", 8)
        plain = self.run_json("generate", "-m", self.target, "--tokens", ",".join(map(str, tokens)), "-n", 8)
        self.assertEqual(chat["prompt_tokens"], tokens)
        self.assertEqual(chat["tokens"], plain["tokens"])

    def test_what_is_no_conversation_is_refused(self):
        for value, word in (("[", "line 1"), ("5", "line 1"), ({"tools": []}, "conversation")):
            self.assert_fails("tokenize", "-m", self.target, "--chat", self.file(value), saying=["chat.json", word])
        (self.target / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
        self.assert_fails("tokenize", "-m", self.target, "--chat", self.file(MESSAGES), saying=["roles must alternate"])
        self.assert_fails("tokenize", "-m", self.draft, "--chat", self.file(MESSAGES), saying=["no chat template"])
        self.assert_fails("tokenize", "-m", self.target, "--chat", self.root / "none", saying=["cannot be opened"])
        self.assert_fails("tokenize", "-m", self.target, "-p", "a", "--chat", "b", code=2, saying=["-p and --chat"])


if __name__ == "__main__":
    main()
