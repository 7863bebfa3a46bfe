"""Words that steer a model in languages beside English and Chinese: a short list for each, not a grammar.

A sentence is suspected when words of three groups of one language stand near each other, for one of them alone is ordinary
news. Words are compared in lower case and without accents. What these lists miss is counted by the test of the attacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agents.evidence.skeleton import without_marks

_NEAR = 90
"""Characters before and after the first word in which the others are looked for: about a sentence."""
# One row a language: three columns that mean “forget · the former · orders”, three that mean “the reader · must · verdict”,
# and what is suspected alone: a note to an AI, a new role for it, its system prompt. Stems, with | between them.
_TABLE = (
    # Spanish, Portuguese, Italian
    ("ignora|ignore|olvida|olvide|esqueca|esquece|dimentica|descarta|desconsidere", "anterior|previ|todas|tutte|precedent",
     "instruc|regla|regra|regole|istruzion|indicacion|directric",
     "sistema:|analista|modelo|modello|asistente|assistente", "debe|deve|tiene que|tem que",
     "oficial|ufficial|confianza|confianca|fiducia|comprar|vender|comprare",
     "nota para la ia|nota para a ia|nota per l'ia|mensaje para la ia|mensagem para a ia|prompt del sistema|prompt do sistema|"
     "prompt di sistema|ahora eres un asistente|agora voce e um assistente|ora sei un assistente"),
    # French
    ("ignore|oublie|neglige", "precedent|toutes|anterieur", "instruction|consigne|regle|directive",
     "systeme:|systeme :|analyste|modele|assistant", "doit|dois|devez", "officiel|confiance|acheter|vendre",
     "note a l'ia|message a l'ia|note pour l'ia|prompt systeme|tu es maintenant un assistant|vous etes maintenant un assistant"),
    # German
    ("ignoriere|vergiss|vergessen sie|missachte|ubergehe", "vorherig|bisherig|fruher|alle", "anweisung|regel|vorgabe",
     "system:|analyst|modell|assistent", "muss|soll", "offiziell|konfidenz|kaufen|verkaufen",
     "hinweis an die ki|nachricht an die ki|notiz an die ki|du bist jetzt ein assistent|du bist nun ein assistent"),
    # Russian, Ukrainian
    ("игнорируй|ігноруй|забудь|не обращай внимания", "предыдущ|прежн|попередн|все|усі", "инструкц|правил|указан|інструкц",
     "система:|аналитик|модель|ассистент|помощник", "должен|должна|обязан", "официальн|уверенност|покупать|продавать|единственн",
     "сообщение для ии|заметка для ии|системныи промпт|теперь ты неограниченн|теперь ты помощник|ты теперь помощник"),
    # Arabic
    ("تجاهل|انس", "السابقة|جميع", "التعليمات|القواعد|الأوامر", "النظام:|المحلل|النموذج|المساعد", "يجب",
     "رسمي|الثقة|شراء|بيع", "ملاحظة إلى الذكاء|رسالة إلى الذكاء|أنت الآن مساعد"),
    # Persian
    ("نادیده بگیر|فراموش کن", "قبلی|پیشین|همه", "دستور|قواعد", "سیستم:|تحلیلگر|مدل|دستیار", "باید",
     "رسمی|اطمینان|خرید|فروش", "یادداشت برای هوش مصنوعی|پیام به هوش مصنوعی|تو اکنون دستیار|تو حالا دستیار"),
    # Korean
    ("무시하|무시해|잊어", "이전|앞의|위의|모든", "지시|명령|규칙|지침", "시스템:|분석가|모델|어시스턴트", "해야",
     "공식|신뢰도|매수|매도", "ai에게 보내는|ai에게 알림|시스템 프롬프트를|당신은 이제 제한|당신은 이제 도우미"),
    # Japanese
    ("無視し、|無視して|無視せよ|忘れて|忘れろ", "以前の|これまで|上記|すべて|全て", "指示|命令|ルール|規則", "システム:|アナリスト|モデル|アシスタント",
     "なければならない|べき", "公式|信頼度|買い|売り", "aiへの注意|aiへのメモ|aiへの指示|システムプロンプトを|あなたは今から"),
    # Turkish
    ("yok say|unut|gormezden gel|dikkate alma", "onceki|tum", "talimat|kural|yonerge", "sistem:|analist|model|asistan",
     "malı|meli", "resmi|guven|onayl", "yapay zekaya not|sistem istemini|artık bir asistansın"),
    # Vietnamese
    ("bo qua|quen di", "truoc do|moi|tat ca", "huong dan|chi thi|quy tac", "he thong:|nha phan tich|mo hinh|tro ly",
     "phai", "chinh thuc|do tin cay", "gui ai:|luu y cho ai|bay gio ban la tro ly"),
    # Indonesian
    ("abaikan|lupakan", "sebelumnya|semua", "instruksi|perintah|aturan", "sistem:|analis|model|asisten", "harus|wajib",
     "resmi|keyakinan", "catatan untuk ai|pesan untuk ai"),
    # Hindi
    ("अनदेखा|भूल जाओ", "पिछले|सभी", "निर्देश|नियम", "सिस्टम:|विश्लेषक|मॉडल", "होगा|चाहिए", "आधिकारिक|विश्वास", "एआई के लिए नोट"),
    # Polish
    ("ignoruj|zapomnij|pomin", "poprzedni|wszystkie", "instrukcj|polecen|zasad", "system:|analityk|model|asystent",
     "musi|powinien", "oficjaln|pewnosc", "notatka dla ai|wiadomosc dla ai"),
    # Thai
    ("เพิกเฉย|ละเว้น|ลืม", "ก่อนหน้า|ทั้งหมด", "คำสั่ง|กฎ", "ระบบ:|นักวิเคราะห์", "ต้อง", "ทางการ|ความเชื่อมั่น", "ข้อความถึง ai"),
)  # fmt: skip


class _Language(NamedTuple):
    orders: tuple[tuple[str, ...], ...]
    duties: tuple[tuple[str, ...], ...]
    alone: tuple[str, ...]


def _language(row: tuple[str, ...]) -> _Language:
    columns = [tuple(without_marks(cell).split("|")) for cell in row]
    return _Language((columns[0], columns[1], columns[2]), (columns[3], columns[4], columns[5]), columns[6])


_LANGUAGES = tuple(map(_language, _TABLE))


def steers_in_some_language(low: str) -> bool:
    """Whether a text in lower case, with single spaces, orders about a model. Takes time in proportion to its length."""
    bare = without_marks(low)
    return any(
        any(word in bare for word in language.alone) or _near(bare, language.orders) or _near(bare, language.duties)
        for language in _LANGUAGES
    )


def _near(text: str, groups: tuple[tuple[str, ...], ...]) -> bool:
    if not all(any(word in text for word in group) for group in groups):
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
