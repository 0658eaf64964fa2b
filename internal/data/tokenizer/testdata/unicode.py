"""Writes ../unicode.txt: which characters Hugging Face's tokenizers count as what, for its parts follow different
versions of Unicode. Needs tokenizers 0.23.3 and unicodedata2 18.0.0."""
import os
import unicodedata

import unicodedata2
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
everything = "".join(map(chr, points))


def pieces(pre, n):
    return {c for c in points if len(pre.pre_tokenize_str("a" + chr(c) + "a")) == n}


def gone(normalizer):
    return {c for c in points if normalizer.normalize_str("a" + chr(c)) == "a"}


def regex(pattern):
    kept = N.Replace(Regex(pattern), "").normalize_str(everything)
    return set(points) - set(map(ord, kept))


def inert():
    """Characters that Unicode has since given a decomposition or a combining class."""
    out = set()
    for c in points:
        s = chr(c)
        if unicodedata2.combining(s):
            after, before = "a\u0345" + s, "a" + s + "\u0334"
            if any(N.NFD().normalize_str(t) != unicodedata2.normalize("NFD", t) for t in (after, before)):
                out.add(c)
        if N.NFKD().normalize_str(s) != unicodedata2.normalize("NFKD", s):
            out.add(c)
    return out


sets = {
    "control": gone(N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)),
    "nonspacing": gone(N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)),
    "combining": gone(N.StripAccents()),
    "punctuation": pieces(P.Punctuation(), 3),
    "numeric": pieces(P.Digits(individual_digits=True), 3),
    "word": pieces(P.Whitespace(), 1),
    "inert": inert(),
    "w": regex(r"\w"),
}
for name in "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf".split() + [
    "Han", "Hiragana", "Katakana", "Hangul", "Latin", "Greek", "Cyrillic", "Arabic", "Hebrew", "Thai", "Devanagari"]:
    sets[name] = regex(r"\p{%s}" % name)

with open(os.path.join(os.path.dirname(__file__), "..", "unicode.txt"), "w") as f:
    for name, members in sets.items():
        f.write(name)
        end = 0
        for c in sorted(members):
            if c > end or end == 0:
                if end:
                    f.write(f",{end - first:x}")
                f.write(f" {c - end:x}")
                first = c
            end = c + 1
        f.write(f",{end - first:x}\n")
    # Lower case that Python 3.11 (Unicode 14) does not know.
    f.write("lower")
    for c in points:
        low = N.Lowercase().normalize_str(chr(c))
        if low != chr(c).lower():
            f.write(f" {c:x},{ord(low):x}")
    f.write("\n")
