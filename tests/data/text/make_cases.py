#!/usr/bin/env python3
"""Writes cases.json: texts, and the ids and decoded texts that the reference implementation gives for them.

    pip install tokenizers        (in an environment of its own; 0.23.2 wrote the file that is here)
    python3 make_cases.py ../../../models/demo/tokenizer.json > cases.json

Each variant changes the demo model's tokenizer.json: fields of the top level and of the model are replaced, added tokens
appended, the last merges dropped. The tests build the same variants and must get the same ids. A second argument
asks for so many further random texts a variant, a third for another seed.
"""
import copy
import json
import random
import sys

from tokenizers import Tokenizer

GLM = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
       r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CATEGORIES = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
              r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": "Isolated", "invert": False}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*items):
    return {"type": "Sequence", "pretokenizers": list(items)}


def added(content, **flags):
    token = {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": False}
    token.update(flags)
    return token


STRIPPING = [
    added("<left>", lstrip=True), added("<right>", rstrip=True), added("<both>", lstrip=True, rstrip=True),
    added("word", single_word=True), added("<le", special=True), added("<|", special=True),
    added("caff\u1ebf", normalized=True), added("e\u0301t\u1ebf", normalized=True), added("<norm>", normalized=True),
    added("\ud55c\uae00", normalized=True, lstrip=True), added("\u1e9b\u0323", normalized=True), added("\u1e9e"),
    added("end.", rstrip=True, single_word=True),
]

VARIANTS = [
    {"name": "demo"},
    {"name": "demo, added tokens as plain text", "without_added": True},
    {"name": "ByteLevel alone, prefix space", "replace": {"pre_tokenizer": byte_level(True, True)}},
    {"name": "digits one by one, prefix space before every word",
     "replace": {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, split(GLM),
                                           byte_level(True, False))}},
    {"name": "digit runs, split at a string",
     "replace": {"pre_tokenizer": sequence(split("::", "String"), split(" .", "String"),
                                           {"type": "Digits", "individual_digits": False}, byte_level(False, True))}},
    {"name": "digits in threes, scripts, letters and marks",
     "replace": {"pre_tokenizer": sequence(
         split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
         split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
               "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
         byte_level(False, False))}},
    {"name": "letters by case", "replace": {"pre_tokenizer": sequence(split(CATEGORIES), byte_level())}},
    {"name": "classes", "replace": {"pre_tokenizer": sequence(
        split(r"\p{Han}+|\w+|[\s\d]+"), split(r"(?<=a)b|^[^\S\n]+|\S$|(?:x(?i:k|s))+?|\u00e9|\x{E8}|[\w&-]{2,3}"),
        byte_level())}},
    {"name": "empty matches", "replace": {"pre_tokenizer": sequence(split(r"x*"), split(r"(?=b)|\D\d"), byte_level())}},
    {"name": "NFC, stripping added tokens", "replace": {"normalizer": {"type": "NFC"}}, "added": STRIPPING},
    {"name": "stripping added tokens", "replace": {"normalizer": {"type": "Sequence", "normalizers": []}},
     "added": STRIPPING},
    {"name": "words before merges", "model": {"ignore_merges": True}, "drop_merges": 3000},
    {"name": "few merges", "drop_merges": 3500},
]

TEXTS = [
    "", " ", "\n", "\n\n\n", " \n \n", "\t", "\r\n\r\n", "Hello, world!", "hello  world   three    four",
    "I'm you're we've they'll he'd IT'S DON'T it\u017fs '\u017f 'T 'Re'VE'm'LL'd's",
    "1234567890", "3.14159 1e-10 0x7fff 1,000,000", "\u0661\u0662\u0663 \u00b2\u00bd \u2167 \u3280 12\u06f43",
    "def f(x):\n    return x ** 2  # comment\n\n\nclass A:\n\tpass\n", "https://example.org/a/b?c=d&e=f#g",
    "a@b.co, (x) [y] {z} <w> std::vector<int> a .b c . d", "!!!???...,,,;;;",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u5929\u6c14\u600e\u4e48\u6837\uff1f",
    "\u79c1\u306f\u65e5\u672c\u8a9e\u3092\u8a71\u3057\u307e\u3059\u3002\u30ab\u30bf\u30ab\u30ca",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \ud55c\uae00 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440",
    "caf\u00e9 cafe\u0301 \u00e9t\u00e9 e\u0301te\u0301 \u212b \u00c5 A\u030a n\u0303 q\u0323\u0307 q\u0307\u0323",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 \u2764\ufe0f \U0001f44d\U0001f3fd",
    "\u00a0a\u1680b\u180ec\u2003d\u2028e\u2029f\u202fg\u205fh\u3000i\u0085j\u000bk\u000cl\u200bm\ufeffn",
    "a\u180e b \u180e\u180e  c\u0085\u0085 d\u2028\u2028e \u00a0\u00a0 f", "\u0000\u0001\u001f\u007f\u0080\u00ad\uffff",
    "\ue000 \U0010ffff \ufdd0 \ufffd", "\u24b6\u24d0\U0001f130\U0001f150\U0001f170 \u203f_\u2040 a\u0300_\u200d1\u212ax",
    "382\u30ad\u00bd\u4e21happy x\u00b2happy\u00b9\u00behappy",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abcabcabcbbb xxxxks xkxS bab aab",
    "the theist therefore thereafter understanding misunderstandings wordnet definitions adjectives",
    "antidisestablishmentarianism Pneumonoultramicroscopicsilicovolcanoconiosis",
    "What does happy mean?", "As an adjective, happy means enjoying or showing or marked by joy or pleasure.",
    "[gMASK]<sop><|user|>What does happy mean?<|assistant|><think></think>", "[gMASK][MASK] [gMASK", "<|user|",
    "<|user|><|user|> <|user|>\n<|USER|>", "a<|endoftext|>b", "<think> </think>\n<tool_call>f<arg_key>k</arg_key>",
    "x <left> y  <right>  z \n<both>\n w", "<left><right><both>", "  <left>  ", " <right> \t <both> <left>",
    "word aword worda a word. _word word_ -word- \u00e9word word\u0301 word", "<le <left <left> <lefty>",
    "<| <|u <|user|> <|use", "caff\u1ebfs caffe\u0302\u0301 e\u0301t\u1ebf \u00e9te\u0302\u0301 \u017f\u0323\u0307", "<norm>  <norm> <left> <norm>",
    "  \ud55c\uae00 \u1112\u1161\u11ab\u1100\u1173\u11af", "end. end.  end.x xend. <end.>\n\n end.", "\u00c5\u212bA\u030a \u1e9e",
    "<right>  <left>  <right>", "<right> \n word <both>   \n <left>", "\u3000<left>\u00a0<right>\u2003\u2003<both>\u0085x",
]

POOLS = [
    [chr(c) for c in range(32, 127)],
    list(" \t\n\r\x0b\x0c\x85\xa0\u1680\u180e\u2000\u2028\u2029\u202f\u205f\u3000\u200b\u200c\u200d\ufeff"),
    list("'sStTrRvVmMlLdDeE\u017f\u212akKxb-&"),
    list("0123456789\u0661\u0662\u00b2\u00bd\u2167\u3280"),
    [chr(c) for c in range(0x300, 0x330)] + list("aeiou"),
    [chr(c) for c in list(range(0x4e00, 0x4e40)) + list(range(0x3041, 0x3061)) + list(range(0x30a1, 0x30c1))],
    [chr(c) for c in range(0x1f600, 0x1f640)],
    [chr(c) for c in range(0xa1, 0x600) if c not in (0x378, 0x379, 0x530, 0x557, 0x558, 0x590)],
    [chr(c) for c in list(range(0x905, 0x950)) + list(range(0xe01, 0xe30))],
    [chr(c) for c in list(range(0xac00, 0xac40)) + list(range(0x1100, 0x1113)) + list(range(0x1161, 0x1176))
     + list(range(0x11a8, 0x11c3))],
    [" the", " of", " word", "ing", "happy", "end.", "::", " .", "\n\n", "  "],
]


def random_text(contents):
    pools = random.choices(POOLS + [contents], k=random.randrange(1, 5))
    parts = []
    for _ in range(random.choice([1, 3, 10, 30, 60])):
        parts.append(random.choice(random.choice(pools if random.random() < 0.9 else POOLS + [contents])))
    return "".join(parts)


def build(base, variant):
    result = copy.deepcopy(base)
    result.update(variant.get("replace", {}))
    result["model"].update(variant.get("model", {}))
    if variant.get("drop_merges"):
        result["model"]["merges"] = result["model"]["merges"][:-variant["drop_merges"]]
    if variant.get("without_added"):
        result["added_tokens"] = []
    for token in variant.get("added", []):
        token["id"] = len(result["model"]["vocab"]) + len(result["added_tokens"])
        result["added_tokens"].append(token)
    return result


def main():
    base = json.load(open(sys.argv[1], encoding="utf-8"))
    more = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    variants = []
    for variant in VARIANTS:
        spec = build(base, variant)
        reference = Tokenizer.from_str(json.dumps(spec))
        for token in spec["added_tokens"]:
            assert reference.token_to_id(token["content"]) == token["id"], token
        contents = [token["content"] for token in base["added_tokens"] + variant.get("added", [])]
        cases = []
        for text in TEXTS + [random_text(contents) for _ in range(more)]:
            ids = reference.encode(text, add_special_tokens=False).ids
            case = {"text": text, "ids": ids}
            decoded = reference.decode(ids, skip_special_tokens=False)
            if decoded != text:
                case["decoded"] = decoded
            cases.append(case)
        variants.append(dict(variant, cases=cases))
    json.dump({"tokenizers": "0.23.2", "variants": variants}, sys.stdout, separators=(",", ":"))
    print()


main()
