"""Prompt-injection patterns for languages other than English and Chinese: a short word list for each, not a grammar.

A text is suspected when words of three groups of one language appear close together, since a single group is ordinary
news. It is also suspected when it tells a model how to treat this very page. Words are compared in lower case and
without accents. The test of the attacks counts what these lists miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agents.text.matching import holds_any
from agents.text.skeleton import without_marks

_NEAR = 90
"""Characters before and after the first word in which the others are searched: about a sentence."""
# One row per language family: three columns that mean “forget · the former · orders” (not “all orders”: news about
# somebody who ignores all rules is common); a pattern for “the model must mark this page”; and phrases that are
# suspected alone: a note to an AI, a new role for it, its system prompt. Stems, with | between them. The pattern needs
# its words adjacent, in order, and with this very page as the object: analysts, models and systems that must do
# something are everyday news, and so is advice to buy.
_TABLE = (
    # Spanish, Portuguese, Italian
    ("ignora|ignore|olvida|olvide|esqueca|esquece|dimentica|descarta|desconsidere", "anterior|previ|precedent",
     "instruc|regla|regra|regole|istruzion|indicacion|directric",
     r"(?:sistema ?: ?(?:el |o |l')?analista|\b(?:modelo|modello|asistente|assistente)) (?:debe|deve|tiene que|tem que) "
     r"(?:marcar|fijar|definir|tratar|clasificar|classificar|considerar|segnare|considerare|trattare|classificare) [^.!?]{0,20}?"
     r"\b(?:est[ae]|quest[ao]) (?:pagina|fuente|fonte|noticia|notizia|articulo|artigo|articolo|texto|testo)\b",
     "nota para la ia|nota para a ia|nota per l'ia|mensaje para la ia|mensagem para a ia|prompt del sistema|prompt do sistema|"
     "prompt di sistema|ahora eres un asistente|agora voce e um assistente|ora sei un assistente"),
    # French
    ("ignore|oublie|neglige", "precedent|anterieur", "instruction|consigne|regle|directive",
     r"(?:systeme ?: ?(?:l')?analyste|\b(?:modele|assistant)) (?:doit|dois|devez) (?:marquer|classer|traiter|considerer) "
     r"[^.!?]{0,20}?\b(?:cette (?:page|source|nouvelle)|cet article|ce texte)\b",
     "note a l'ia|message a l'ia|note pour l'ia|prompt systeme|tu es maintenant un assistant|vous etes maintenant un assistant"),
    # German
    ("ignoriere|vergiss|vergessen sie|missachte|ubergehe", "vorherig|bisherig|fruher", "anweisung|regel|vorgabe",
     r"(?:system ?: ?(?:der )?analyst|\b(?:modell|assistent)) (?:muss|soll) (?:nun |jetzt )?(?:diese (?:seite|quelle|nachricht)|"
     r"diesen (?:artikel|text)) [^.!?]{0,40}?(?:markieren|einstufen|kennzeichnen|behandeln|bewerten)\b",
     "hinweis an die ki|nachricht an die ki|notiz an die ki|du bist jetzt ein assistent|du bist nun ein assistent"),
    # Russian, Ukrainian
    ("игнорируй|ігноруй|забудь|не обращай внимания", "предыдущ|прежн|попередн", "инструкц|правил|указан|інструкц",
     r"(?:система ?: ?аналитик|\b(?:модель|ассистент|помощник)) (?:должен|должна|обязан|обязана) (?:(?:пометить|отметить|считать|"
     r"признать) [^.!?]{0,20}?\b(?:эту (?:страницу|новость|статью)|этот (?:источник|текст))|установить уверенность \d|сослаться на http)",
     "сообщение для ии|заметка для ии|системныи промпт|теперь ты неограниченн|теперь ты помощник|ты теперь помощник"),
    # Arabic
    ("تجاهل|انس", "السابقة", "التعليمات|القواعد|الأوامر",
     r"(?:النظام ?: ?يجب على المحلل|يجب على (?:النموذج|المساعد)) أن (?:يضع|يعتبر|يصنف|يعامل) [^.!?؟]{0,20}?"
     r"(?:هذه الصفحة|هذا (?:المصدر|الخبر|المقال|النص))",
     "ملاحظة إلى الذكاء|رسالة إلى الذكاء|أنت الآن مساعد"),
    # Persian
    ("نادیده بگیر|فراموش کن", "قبلی|پیشین", "دستور|قواعد",
     r"(?:سیستم ?: ?تحلیلگر|\b(?:مدل|دستیار)) باید این (?:صفحه|منبع|خبر|متن|مقاله) را [^.!?؟]{0,40}?(?:علامت|نشان|تلقی|بداند)",
     "یادداشت برای هوش مصنوعی|پیام به هوش مصنوعی|تو اکنون دستیار|تو حالا دستیار"),
    # Korean
    ("무시하|무시해|잊어", "이전|앞의|위의", "지시|명령|규칙|지침",
     r"(?:시스템 ?: ?분석가|모델|어시스턴트)[은는이가] 이 (?:페이지|출처|기사|뉴스)[을를] [^.!?]{0,20}?(?:표시|간주|분류)(?:[^.!?]|\.\d){0,30}?해야"
     r"|(?:supports|denies|hedges|earlier|unrelated)['\"”’]? ?(?:으로|이라고|라고|로) (?:답|대답|응답|표시|적)",
     "ai에게 보내는|ai에게 알림|시스템 프롬프트를|당신은 이제 제한|당신은 이제 도우미"),
    # Japanese
    ("無視し、|無視して|無視せよ|忘れて|忘れろ", "以前の|これまで|上記", "指示|命令|ルール|規則",
     r"(?:システム ?: ?アナリスト|モデル|アシスタント)[はが]この(?:ページ|記事|情報源|ニュース)を[^。.!?]{0,20}?"
     r"(?:扱|判定|分類|みな)(?:[^。.!?]|\.\d){0,30}?(?:なければならない|べき)"
     r"|(?:supports|denies|hedges|earlier|unrelated)['\"」”]? ?(?:と|で) ?(?:答え|回答|記入|出力)",
     "aiへの注意|aiへのメモ|aiへの指示|システムプロンプトを|あなたは今から"),
    # Turkish
    ("yok say|unut|gormezden gel|dikkate alma", "onceki", "talimat|kural|yonerge",
     r"(?:sistem ?: ?analist|\b(?:model|asistan)) bu (?:sayfayı|kaynağı|haberi|metni) [^.!?]{0,30}?(?:işaretlemeli|saymalı|kabul etmeli)",
     "yapay zekaya not|sistem istemini|artık bir asistansın"),
    # Vietnamese
    ("bo qua|quen di", "truoc do", "huong dan|chi thi|quy tac",
     r"(?:hệ thống ?: ?nhà phân tích|\b(?:mô hình|trợ lý)) phải (?:đánh dấu|coi|xem|phân loại) "
     r"(?:trang|nguồn|tin|bài viết|bài báo) này\b",
     "gui ai:|luu y cho ai|bay gio ban la tro ly"),
    # Indonesian
    ("abaikan|lupakan", "sebelumnya", "instruksi|perintah|aturan",
     r"(?:sistem ?: ?analis|\b(?:model|asisten)) (?:harus|wajib) (?:menandai|menganggap|memperlakukan) "
     r"(?:halaman|sumber|berita|artikel|teks) ini\b",
     "catatan untuk ai|pesan untuk ai"),
    # Hindi
    ("अनदेखा|भूल जाओ", "पिछले", "निर्देश|नियम",
     r"(?:सिस्टम ?: ?विश्लेषक|मॉडल|सहायक) को इस (?:पृष्ठ|स्रोत|समाचार|लेख) [^.!?।]{0,30}?(?:चिह्नित|मान)[^.!?।]{0,12}?(?:होगा|चाहिए)",
     "एआई के लिए नोट"),
    # Polish
    ("ignoruj|zapomnij|pomin", "poprzedni", "instrukcj|polecen|zasad",
     r"(?:system ?: ?analityk|\b(?:model|asystent)) (?:musi|powinien) (?:oznaczyć|uznać|potraktować) "
     r"(?:tę stronę|tę wiadomość|to źródło|ten artykuł|ten tekst)",
     "notatka dla ai|wiadomosc dla ai"),
    # Thai
    ("เพิกเฉย|ละเว้น|ลืม", "ก่อนหน้า", "คำสั่ง|กฎ",
     r"(?:ระบบ ?: ?นักวิเคราะห์|โมเดล|ผู้ช่วย) ?ต้อง ?(?:ทำเครื่องหมาย|ถือว่า|จัด)(?:หน้า|แหล่งข่าว|ข่าว|บทความ)นี้",
     "ข้อความถึง ai"),
)  # fmt: skip


# One row per language above: every match of its pattern holds one of these words. Looking for them first saves most of the
# time (tests/agents/text/test_injection.py holds the two together).
_NEEDS = (
    "modelo|modello|asistente|assistente|sistema",
    "modele|assistant|systeme",
    "modell|assistent|system",
    "модель|ассистент|помощник|система",
    "يجب على",
    "مدل|دستیار|سیستم",
    "시스템|모델|어시스턴트|으로|이라고|라고|로 ",
    "システム|モデル|アシスタント|答え|回答|記入|出力",
    "model|asistan|sistem",
    "mô hình|trợ lý|hệ thống",
    "model|asisten|sistem",
    "सिस्टम|मॉडल|सहायक",
    "model|asystent|system",
    "ระบบ|โมเดล|ผู้ช่วย",
)


class _Language(NamedTuple):
    orders: tuple[tuple[str, ...], ...]
    needs: tuple[str, ...]
    duty: re.Pattern[str]
    alone: tuple[str, ...]


def _language(row: tuple[str, ...], needs: str) -> _Language:
    *orders, duty, alone = map(without_marks, row)
    return _Language(
        tuple(tuple(stems.split("|")) for stems in orders),
        tuple(without_marks(needs).split("|")),
        re.compile(duty),
        tuple(alone.split("|")),
    )


_LANGUAGES = tuple(_language(row, needs) for row, needs in zip(_TABLE, _NEEDS, strict=True))
_IN_ASCII = tuple(
    language
    for language in _LANGUAGES
    if any(w.isascii() for group in (*language.orders, language.needs, language.alone) for w in group)
)
"""The languages that can be written in ASCII."""


def steers_in_some_language(low: str) -> bool:
    """Return whether a text (lower case, single spaces) tries to steer a model. The time is linear in its length."""
    bare = without_marks(low)
    for language in _IN_ASCII if bare.isascii() else _LANGUAGES:
        if holds_any(bare, language.alone) or _near(bare, language.orders):
            return True
        if holds_any(bare, language.needs) and language.duty.search(bare):
            return True
    return False


def _near(text: str, groups: tuple[tuple[str, ...], ...]) -> bool:
    for group in groups:
        if not holds_any(text, group):
            return False
    first, *others = groups
    for at in _places(text, first):
        around = text[max(0, at - _NEAR) : at + _NEAR]
        if all(any(word in around for word in group) for group in others):
            return True
    return False


def _places(text: str, words: tuple[str, ...]) -> Iterator[int]:
    for word in words:
        at = text.find(word)
        while at >= 0:
            yield at
            at = text.find(word, at + len(word))
