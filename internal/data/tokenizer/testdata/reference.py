"""Trains small tokenizers of the kinds that models have and writes them and, to expected.json, what tokenizers makes of
texts. Needs tokenizers 0.23.3 and, for the character map, sentencepiece 0.2.3."""
import hashlib
import io
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import models as M, normalizers as N, pre_tokenizers as P, processors as PP, trainers as T

here = os.path.dirname(os.path.abspath(__file__))
random.seed(1)

prose = """A model that is sure of itself is not always right. When it meets what it has never seen, it should say so!
She said: "I'd rather we'd waited; they've left, haven't they?" The price rose from $1,024.50 to $2,048 in 2023-10-31.
def score(x, alpha=0.1): return [f"{v:.3f}" for v in x if v <= alpha]  # <b>HTML</b> &amp; http://a.b/c?d=e&f=1
El niño comió piñas y después llamó a su tía. Où est la bibliothèque? L'été, ça va très bien à Besançon.
Die Straße führt über die Brücke, größer als üblich. Čeština má háčky: příliš žluťoučký kůň. Zażółć gęślą jaźń.
Модель не уверена в ответе. Это предложение написано по-русски. Το μοντέλο δεν είναι βέβαιο, ΣΊΣΥΦΟΣ.
模型对自己的答案没有把握。我们今天去北京。日本語の文章とカタカナです。이 모델은 확신이 없습니다.
النموذج غير متأكد من الجواب. המודל אינו בטוח. โมเดลไม่แน่ใจในคำตอบ मॉडल को यकीन नहीं है।
a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z 0 1 2 3 4 5 6 7 8 9"""
lines = prose.split("\n")
words = prose.split()

odd = """\u200b|\u200c|\u200d|\u2060|\ufeff|\u00ad|\u034f|\u0301|\u0323|\u3099|\ufe0f|\x00|\x01|\x1b|\x7f|\x85|\xa0|\u2028|\u3000|\t|\n|\r\n|\x0b|  |   |\n\n|\ufffd|\ue000|\u0378|\u2581|Ġ|##|<unk>|</s>|<s>|[CLS]|[MASK]|<mask>| <mask> |``|''|İ|ß|ſ|ﬁ|ǅ|ς|'S|'ſ|'LL|Ⅷ|½|②|٣|㊿|ﷺ|한|👨‍👩‍👧|👍🏽|🇩🇪|1️⃣|©\u200d|क्षि|ที่|e\u0301|q\u0307\u0323|\u0344|\u0f73|…|—|。|،|①|𝕳|ｈｅ|ｶﾞ|か\u3099|\u1c89|\U00010d50|a_b|C++|\\n|a\u0e33|\u0600a|hotel|hotels|New York|new york|abc|ab|\u07fd\u0323|\U0001e030""".split("|")
# Up to 30 marks on a character: behind these the package puts U+034F.
odd += ["x" * 130, "e" + "\u0301\u0323" * 15, "o" + "".join(random.choice("\u0301\u0323\u0345\u0334\u05b0") for _ in range(40))[:30]]


def invent():
    parts = []
    for _ in range(random.randint(1, 12)):
        w = random.choice(words)
        i = random.randrange(len(w) + 1)
        parts.append(random.choice([w, w, w.upper(), random.choice(odd), w[:i] + random.choice(odd) + w[i:], str(random.randrange(10**9))]))
    return random.choice([" ", " ", "", "  "]).join(parts)


texts = ["", " ", "\n", "\u200b", "a", "▁", "'"] + lines + odd + [invent() for _ in range(90)]

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
ADDED = [AddedToken("hotel", single_word=True), AddedToken("New York"), AddedToken("ab", normalized=False), AddedToken("abc", normalized=False, rstrip=True), AddedToken("   ")]
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
bytes_only = P.ByteLevel(add_prefix_space=False, use_regex=False)


def character_map():
    """A few rules, for the usual ones of SentencePiece are 240 kB."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    rules = {"\u200b": " ", "\ufeff": "", "\u00a0": " ", "\t": " ", "\n": " ", "\r": " ", "\x01": "", "\x1b": "", "\x7f": "",
             "\u3000": " ", "ﬁ": "fi", "½": "1⁄2", "②": "2", "ｈ": "h", "ｅ": "e", "ｶﾞ": "ガ", "ﷺ": "صلى الله عليه وسلم",
             "e\u0301": "é", "か\u3099": "が", "©": "(c)", "…": "...", "İ": "i\u0307", "Ⅷ": "VIII"}
    table = os.path.join(here, "rules.tsv")
    with open(table, "w") as f:
        for a, b in rules.items():
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines * 3), model_writer=out, vocab_size=400,
                                             normalization_rule_tsv=table, hard_vocab_limit=False, minloglevel=2)
    os.remove(table)
    model = pb.ModelProto()
    model.ParseFromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def template(single, pair):
    def post(t):
        names = {w.split(":")[0] for w in (single + " " + pair).split() if w[0] != "$"}
        return PP.TemplateProcessing(single=single, pair=pair, special_tokens=[(n, t.token_to_id(n)) for n in names])
    return post


bert = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
camembert = template("<s> $A </s>", "<s> $A </s> </s> $B </s>")
t5 = template("$A </s>", "$A </s> $B </s>")
llama = template("<s> $A", "<s> $A <s>:1 $B:1")
quiet = {"show_progress": False}
charsmap = N.Precompiled(character_map())
byte_names = ["<0x%02X>" % b for b in range(256)]


def bpe(size, special, **k):
    return T.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=P.ByteLevel.alphabet(), **quiet, **k)


def unigram(size, special):
    return T.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", **quiet)


kinds = {
    "bert": (M.WordPiece(unk_token="[UNK]"), T.WordPieceTrainer(vocab_size=900, special_tokens=BERT, **quiet),
             N.BertNormalizer(), P.BertPreTokenizer(), bert),
    "bert-cased": (M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20), T.WordPieceTrainer(vocab_size=700, special_tokens=BERT, **quiet),
                   N.BertNormalizer(lowercase=False, handle_chinese_chars=False), P.BertPreTokenizer(),
                   lambda t: PP.BertProcessing(("[SEP]", 3), ("[CLS]", 2))),
    "roberta": (M.BPE(), bpe(1200, ROBERTA), None, P.ByteLevel(add_prefix_space=False),
                lambda t: PP.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)),
    "gpt4": (M.BPE(ignore_merges=True), bpe(1200, ["<s>"]), N.NFC(), P.Sequence([P.Split(Regex(GPT4), "isolated"), bytes_only]),
             lambda t: PP.Sequence([PP.ByteLevel(), llama(t)])),
    "o200k": (M.BPE(), bpe(1000, ["<s>"]), N.NFKC(), P.Sequence([P.Split(Regex(O200K), "removed", True), bytes_only]), None),
    "clip": (M.BPE(unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"),
             bpe(900, ["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"),
             N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
             P.Sequence([P.Split(Regex(CLIP), "removed", True), P.ByteLevel(add_prefix_space=False)]), None),
    "falcon": (M.BPE(), bpe(900, ["<s>"]), None,
               P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=True), P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), None),
    "llama": (M.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), T.BpeTrainer(vocab_size=1000, special_tokens=["<unk>", "<s>", "</s>"] + byte_names[:250], limit_alphabet=90, **quiet),
              N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, llama),
    "gemma": (M.BPE(unk_token="<unk>"), T.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=90, **quiet),
              N.Replace(" ", "▁"), P.Split("▁", "merged_with_previous"), llama),
    "xlm-roberta": (M.Unigram(), unigram(900, ROBERTA), charsmap, P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), camembert),
    "albert": (M.Unigram(), unigram(700, ["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, normalized=True)]),
               N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), charsmap, N.Replace(Regex(" {2,}"), " ")]),
               P.Metaspace(), bert),
    "t5": (M.Unigram(), unigram(800, ["<pad>", "</s>", "<unk>"]), N.Sequence([charsmap, N.Strip(left=False), N.Replace(Regex(" {2,}"), "▁")]),
           P.Metaspace(prepend_scheme="first"), t5),
    "wordlevel": (M.WordLevel(unk_token="[UNK]"), T.WordLevelTrainer(vocab_size=400, special_tokens=BERT, **quiet),
                  N.Sequence([N.NFD(), N.StripAccents(), N.Strip()]), P.Sequence([P.Whitespace(), P.Digits(True), P.Punctuation("merged_with_next")]), None),
}

limits = [(None, "longest_first", "right"), (17, "longest_first", "right"), (12, "longest_first", "left"), (11, "only_first", "right"), (11, "only_second", "left")]
pairs = [(random.choice(texts), random.choice(texts)) for _ in range(16)] + list(zip(lines, lines[1:]))
expected = {"texts": texts, "pairs": pairs, "limits": [{"max": m or 0, "strategy": s, "left": d == "left"} for m, s, d in limits], "kinds": {}}
for name, (model, trainer, normalizer, pre, post) in kinds.items():
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    if name == "gemma":
        t.pre_tokenizer = P.Split("▁", "merged_with_previous")
    if name == "llama":
        t.pre_tokenizer = P.Metaspace(prepend_scheme="never")
    t.train_from_iterator(lines * 2, trainer)
    if name == "llama":
        t.pre_tokenizer = P.Sequence([])
    if post:
        t.post_processor = post(t)
    if name in ("bert", "roberta", "t5", "gpt4"):
        t.add_tokens(ADDED[:-1] if name == "t5" else ADDED)
    saved = json.loads(t.to_str())
    if name == "llama":
        saved["pre_tokenizer"] = None
    if name == "t5":  # the last 256 pieces become bytes
        saved["model"]["byte_fallback"] = True
        for b in range(256):
            saved["model"]["vocab"][-1 - b][0] = byte_names[b]
    del saved["decoder"]
    raw = json.dumps(saved, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(here, name + ".json"), "w") as f:
        f.write(raw + "\n")
    t = Tokenizer.from_str(raw)
    out = {"texts": [t.encode(s).ids for s in texts], "pairs": []}
    for limit, strategy, side in limits:
        t.no_truncation()
        if limit:
            t.enable_truncation(limit, strategy=strategy, direction=side)
        row = []
        for a, b in pairs:
            try:
                e = t.encode(a, b)
                row.append([e.ids, e.type_ids])
            except Exception:
                row.append(None)
        out["pairs"].append(row)
    expected["kinds"][name] = out
with open(os.path.join(here, "expected.json"), "w") as f:
    json.dump(expected, f, ensure_ascii=False, separators=(",", ":"))

# What a whole data set becomes, by its digest: reference.py MODEL_FOLDER DATA_FOLDER
if len(sys.argv) == 3:
    import csv

    t = Tokenizer.from_file(os.path.join(sys.argv[1], "tokenizer.json"))
    with open(os.path.join(here, "clinc150.txt"), "w") as f:
        for name in ["train", "val", "test", "oos_val", "oos_test"]:
            digest = hashlib.sha256()
            with open(os.path.join(sys.argv[2], name + ".csv"), newline="") as data:
                for row in list(csv.reader(data))[1:]:
                    digest.update((" ".join(map(str, t.encode(row[0]).ids)) + "\n").encode())
            f.write(f"{name} {digest.hexdigest()}\n")
