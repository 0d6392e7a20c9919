"""Turn documentation packages of Debian into token shards.

  packages -> unpacked pages   apt-get download, dpkg-deb -x into <work>/root
  pages    -> corpus.jsonl     paragraphs, headings, short code blocks; tables, listings and indexes dropped
  text     -> tokenizer.json   byte-level BPE, vocabulary 4096, the Llama 3 split pattern
  tokens   -> train.bin, heldout.bin (uint16), prompts.txt, meta.json

The stages before corpus.jsonl are skipped if it exists, and so is the tokenizer if it exists; each file is complete or absent.

Invariants:
  - all of a document is in the training part or held out (by a hash of its path);
  - no paragraph of 20 characters or more occurs twice in the whole text, digits ignored;
  - the same packages give the same bytes: no clock, no unseeded randomness.
"""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
from lxml import html as lxml_html
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tqdm import tqdm

import script

PACKAGES = ["python3.11-doc", "postgresql-doc-15", "sqlite3-doc", "rust-doc", "python-django-doc"]
VOCAB_SIZE = 4096
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HELDOUT_PERCENT = 3
MAX_CODE_LINES = 25
N_PROMPTS = 200

# (name, glob under root/usr/share/doc, pattern of paths to leave out)
# rust-doc also contains the embedded book; it is excluded because its prose is CC-BY-SA.
SOURCES = [
    ("python", "python3.11/html/**/*.html",
     r"genindex|modindex|search|/whatsnew/changelog|contents\.html|/index\.html|download|_static|_sources|/includes/|license"),
    ("postgresql", "postgresql-doc-15/html/*.html",
     r"bookindex|/index\.html|release|errcodes|sql-keywords|biblio|features-sql|unsupported-features|legalnotice|/git\.html|acronyms"),
    ("sqlite", "sqlite3/**/*.html",
     r"releaselog|changes|/doclist|keyword_index|/toc|sitemap|chronology|requirements|hlr|/matrix|/syntax/|session/funclist|c3ref/funclist|vdbe\.html|/opcode\.html"),
    ("django", "python-django-doc/html/**/*.html",
     r"genindex|modindex|search|contents\.html|/_modules/|/releases/|flattened-index|/index\.html"),
    ("rust-book", "rust-doc/html/book/*.html", r"print\.html|/SUMMARY|toc\.html"),
    ("rust-reference", "rust-doc/html/reference/**/*.html", r"print\.html|toc\.html"),
    ("rust-nomicon", "rust-doc/html/nomicon/**/*.html", r"print\.html|toc\.html"),
    ("rust-example", "rust-doc/html/rust-by-example/**/*.html", r"print\.html|toc\.html"),
    ("rust-rustc", "rust-doc/html/rustc/**/*.html", r"print\.html|toc\.html|lints/listing"),
    ("rust-rustdoc", "rust-doc/html/rustdoc/**/*.html", r"print\.html|toc\.html"),
    ("rust-edition", "rust-doc/html/edition-guide/**/*.html", r"print\.html|toc\.html"),
    ("rust-unstable", "rust-doc/html/unstable-book/**/*.html", r"print\.html|toc\.html"),
    ("rust-std", "rust-doc/html/std/**/*.html", r"all\.html|/arch/|/simd/|/intrinsics/|/os/"),
]

ASCII = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "--", "\u2026": "...",
    "\u00a0": " ", "\u200b": "", "\u00b6": "", "\u2011": "-", "\u2192": "->", "\u00d7": "x", "\ufeff": "",
})
SKIP_TAGS = {"script", "style", "table", "nav", "svg", "img", "form", "button", "details", "noscript", "header", "footer", "head", "sup"}
SKIP_CLASSES = {"headerlink", "navheader", "navfooter", "toc", "related", "sphinxsidebar", "indexterm", "src", "anchor",
                "rightside", "srclink", "buttons", "versionmodified_", "sidebar", "toctree-wrapper", "contents", "fancy_toc", "nosearch",
                "tooltip", "example-wrap-collapsed", "refnamediv_", "highlight-none", "code-attribute", "browse-prev-next"}
BLOCKS = {"p", "div", "section", "ul", "ol", "dl", "dd", "blockquote", "article", "main", "body", "center", "figure", "aside"}


def clean(text: str) -> str:
    return re.sub(r"\s+", " ", text.translate(ASCII)).strip()


def code_text(node) -> str:
    lines = node.text_content().translate(ASCII).expandtabs(4).split("\n")
    lines = [line.rstrip() for line in lines if not line.startswith("# ")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    if not lines or len(lines) > MAX_CODE_LINES or max(map(len, lines)) > 110:
        return ""
    indent = min((len(l) - len(l.lstrip()) for l in lines if l), default=0)
    return "\n".join("    " + l[indent:] if l else "" for l in lines)


def skipped(node) -> bool:
    if not isinstance(node.tag, str) or node.tag in SKIP_TAGS:
        return True
    return bool(SKIP_CLASSES.intersection((node.get("class") or "").split()))


def paragraphs(node, out: list, prefix: str = "") -> None:
    """Walk the tree in reading order and append (kind, text) to out; kind is head, text or code."""
    inline = [prefix]

    def flush():
        text = clean("".join(inline))
        inline[:] = [""]
        if text and text != "-":
            out.append(("text", text))

    def visit(child):
        if skipped(child):
            pass
        elif child.tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            flush()
            parts = []
            gather(child, parts)
            text = re.sub(r"^(Chapter |Appendix )?[0-9A-Z]*[0-9.]+\.? ", "", clean("".join(parts)))
            if text:
                out.append(("head", "#" * min(int(child.tag[1]), 4) + " " + text))
        elif child.tag == "pre":
            flush()
            code = code_text(child)
            if code:
                out.append(("code", code))
        elif child.tag == "li":
            flush()
            paragraphs(child, out, "- ")
        elif child.tag == "dt":
            flush()
            paragraphs(child, out)
        elif child.tag in BLOCKS:
            flush_needed = clean("".join(inline)) not in ("", "-")
            if flush_needed:
                flush()
                paragraphs(child, out)
            else:
                carried = "".join(inline)
                inline[:] = [""]
                paragraphs(child, out, carried)
        elif child.tag == "br":
            inline.append(" ")
        elif any(isinstance(d.tag, str) and (d.tag in BLOCKS or d.tag in ("pre", "li", "h2", "h3")) for d in child.iterdescendants()):
            if child.text:
                inline.append(child.text)
            for grandchild in child:
                visit(grandchild)
        else:
            gather(child, inline)
        if child.tail:
            inline.append(child.tail)

    def gather(element, into):
        if skipped(element):
            return
        if element.text:
            into.append(element.text)
        for sub in element:
            gather(sub, into)
            if sub.tail:
                into.append(sub.tail)

    if node.text:
        inline.append(node.text)
    for child in node:
        visit(child)
    flush()


def page_body(tree, source: str):
    """The elements of a page that contain its text."""
    if source == "rust-std":
        heads = tree.xpath('//h1[contains(@class,"fqn")]')
        return heads[:1] + tree.xpath('//div[contains(@class,"docblock") and not(contains(@class,"item-decl"))]')
    for path in ('//div[@role="main"]', '//div[@id="content"]//main', '//main', '//div[@class="yui-b"]', '//body'):
        found = tree.xpath(path)
        if found:
            return found[:1]
    return []


def prose_like(text: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters >= 0.6 * len(text) and sum(ord(c) > 127 for c in text) <= 0.05 * len(text) + 1


def key_of(text: str) -> bytes:
    return hashlib.sha1(re.sub(r"[\W\d_]+", " ", text.lower()).encode()).digest()[:10]


DROP = re.compile(r"^(This page last modified|Source code:|Table of Contents|Prev |Next |New in version [\d.]+\.?$|Small\. Fast\. Reliable|"
                  r"Return value:|See also the|- Previous|Permalink|Auditing event|Raises an auditing|Read more)")


def unpack(work: Path) -> Path:
    """The current packages of the archive, unpacked. Unpacks all of them again each time, because an interrupted run may have
    left some incomplete."""
    debs, root = work / "deb", work / "root"
    for folder in (debs, root):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True)
    for deb in tqdm(sorted(debs.glob("*.deb")), desc="unpacking", unit="package"):
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    return root


def extract(root: Path) -> list:
    """[(document path, text)], paragraphs unique over everything."""
    seen, short_seen, documents = set(), {}, []
    doc_root = root / "usr/share/doc"
    for source, pattern, leave_out in SOURCES:
        paths = sorted(p for p in doc_root.glob(pattern) if not re.search(leave_out, str(p.relative_to(doc_root))))
        for path in tqdm(paths, desc=source, unit="page"):
            if path.stat().st_size > 3_000_000 or path.is_symlink():
                continue
            raw = path.read_bytes()
            if b'http-equiv="refresh"' in raw[:2000]:
                continue
            try:
                tree = lxml_html.fromstring(re.sub(rb"^<\?xml[^>]*>", b"", raw), parser=lxml_html.HTMLParser(encoding="utf-8"))
            except Exception:
                continue
            blocks = []
            for body in page_body(tree, source):
                if body.tag == "h1":
                    title = clean("".join(body.itertext())).replace("source - ", "")
                    blocks.append(("head", "# " + re.sub(r"\W*(Copy item path|source).*$", "", title)))
                else:
                    paragraphs(body, blocks)
            kept = []
            for kind, text in blocks:
                if DROP.match(text):
                    continue
                if kind == "text" and len(text) > 40 and not prose_like(text):
                    continue
                if kind == "head" or len(text) < 20:
                    count = short_seen.get(text, 0)
                    short_seen[text] = count + 1
                    if count >= (30 if kind == "head" else 10):
                        continue
                else:
                    key = key_of(text)
                    if key in seen:
                        continue
                    seen.add(key)
                if kind == "head" and kept and kept[-1][0] == "head" and kept[-1][1].split(" ")[0] == text.split(" ")[0]:
                    kept.pop()  # a heading without remaining text
                kept.append((kind, text))
            while kept and kept[-1][0] == "head":
                kept.pop()
            if sum(len(text) for kind, text in kept if kind == "text") < 200:
                continue
            pieces = []
            for (kind, text), previous in zip(kept, [None] + kept[:-1]):
                tight = previous and previous[1].startswith("- ") and text.startswith("- ")
                pieces.append(("\n" if tight else "\n\n") + text if previous else text)
            documents.append((str(path.relative_to(doc_root)), "".join(pieces) + "\n"))
    return documents


def held_out(name: str) -> bool:
    return int.from_bytes(hashlib.sha1(name.encode()).digest()[:4], "big") % 100 < HELDOUT_PERCENT


def train_tokenizer(texts) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, special_tokens=[BOS, EOS],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    bos_id = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, bos_id)]),
    ])
    return tokenizer


def pick_prompts(documents, tokenizer) -> list:
    """First sentences (10 to 40 tokens) of held-out paragraphs, spread over the held-out documents."""
    found = []
    for name, text in documents:
        mine = []
        for paragraph in text.split("\n\n"):
            if "\n" in paragraph or not re.match(r"^[A-Z][a-z]* [a-zA-Z]", paragraph) or not paragraph.isascii():
                continue
            sentences = re.split(r"(?<=[a-z)]\.) (?=[A-Z])", paragraph.strip())
            if len(sentences) < 2:
                continue
            prompt = sentences[0]
            if len(tokenizer.encode(prompt, add_special_tokens=False).ids) < 10:
                prompt += " " + sentences[1]
            n = len(tokenizer.encode(prompt, add_special_tokens=False).ids)
            if 10 <= n <= 40 and prompt.endswith("."):
                mine.append(prompt)
        found.append(mine)
    prompts, depth = [], 0
    while len(prompts) < N_PROMPTS and depth < 100:
        for mine in found:
            if depth < len(mine) and len(prompts) < N_PROMPTS:
                prompts.append(mine[depth])
        depth += 1
    return prompts


def main() -> None:
    parser = script.parser(__doc__)
    parser.add_argument("--prompts", type=Path, default=Path(__file__).resolve().parent.parent / "prompts.txt")
    args = parser.parse_args()
    corpus = args.work / "corpus.jsonl"
    if not corpus.exists():
        lines = [json.dumps(document) + "\n" for document in extract(unpack(args.work))]
        script.write_whole(corpus, "".join(lines).encode())
    documents = [tuple(json.loads(line)) for line in corpus.open()]
    parts = {"train": [d for d in documents if not held_out(d[0])], "heldout": [d for d in documents if held_out(d[0])]}

    tokenizer_path = args.work / "tokenizer.json"
    if not tokenizer_path.exists():
        made = train_tokenizer(text for _, text in parts["train"])
        script.write_whole(tokenizer_path, made.to_str(pretty=True).encode())
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    bos, eos = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)

    meta = {"vocab_size": tokenizer.get_vocab_size(), "bos": bos, "eos": eos}
    for part, docs in parts.items():
        order = np.random.default_rng(0).permutation(len(docs))
        encoded = tokenizer.encode_batch([docs[i][1] for i in order], add_special_tokens=False)
        ids = np.concatenate([np.array([bos] + e.ids + [eos], dtype=np.uint16) for e in encoded])
        script.write_whole(args.work / f"{part}.bin", ids.tobytes())
        meta[part] = {"documents": len(docs), "tokens": int(ids.size), "bytes": sum(len(d[1].encode()) for d in docs)}
    prompts = pick_prompts(parts["heldout"], tokenizer)
    script.write_whole(args.prompts, ("\n".join(prompts) + "\n").encode())
    meta["prompts"] = len(prompts)
    script.write_whole(args.work / "meta.json", (json.dumps(meta, indent=1) + "\n").encode())
    print(json.dumps(meta, indent=1))


if __name__ == "__main__":
    script.run(main)
