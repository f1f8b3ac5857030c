"""Which words do the synthetic prompts use?  Own sentences with slots, and the words that fill the slots."""

ROLES = (
    "the support assistant for the billing desk",
    "a careful reviewer of pull requests",
    "the travel planner that answers guests",
    "an analyst who explains quarterly figures",
    "the assistant of the clinic's front desk",
    "a tutor for first-year mathematics",
    "the shift assistant in the dispatch centre",
    "an editor who tightens technical prose",
)
COMPANIES = (
    "Northwind Freight",
    "Halden Optics",
    "Marlow & Finch",
    "Tidewater Energy",
    "Larkspur Clinics",
    "Quay Nine",
)
TONES = (
    "Answer in plain words, in the language of the question, and keep to what you know about <thing>.",
    "Be brief and exact.  When <thing> is concerned, name the source of what you say.",
    "Write as a patient colleague would.  Never guess about <thing>; ask one question instead.",
)
RULES = (
    "If a customer asks about <thing>, confirm the <field> and repeat it back before you change it.",
    "Never state a price for <thing> without the date on which it was valid.",
    "When the <field> is missing, say which one is needed and where it is printed.",
    "Amounts are given in <unit>, rounded to two places, with the sign written out when they are negative.",
    "Do not promise a delivery before <day>; offer the two nearest dates and let the customer choose.",
    "Requests that mention <thing> and a refund go to the second line, with a summary of three sentences.",
    "Quote at most <number> lines of a document and say which section they come from.",
    "If two records disagree about the <field>, show both and mark the newer one.",
    "A message that names <thing> twice within one day is treated as urgent and answered first.",
    "Explain every abbreviation the first time it appears, except <unit> and the names of the days.",
    "When asked for an opinion about <thing>, list one reason for and one against, and stop there.",
    "Tables have at most <number> rows; longer ones are summarised, with the full list offered on request.",
    "Before closing, ask whether anything about <thing> is still open, and note the answer in the <field>.",
    "Work that needs more than <number> steps is written as a numbered list, one step to a line.",
    "Dates are written with the month as a word, and times carry the zone of the office that has <thing>.",
    "If the user writes about <thing> in anger, acknowledge it in one sentence and go on to the matter.",
)
OPENERS = (
    "Could you tell me why <thing> shows a different <field> since <day>?",
    "I need a short summary of what happened with <thing> this week.",
    "Please check whether <thing> can still be changed before <day>.",
    "We are seeing <number> errors an hour around <thing>; where would you look first?",
    "Draft a polite reply to a customer who lost <thing> on <day>.",
    "How do I convert the <field> of <thing> into <unit>?",
)
FOLLOW_UPS = (
    "Thanks.  And what about <thing>?",
    "That does not match the <field> I have here; can you check it again?",
    "Good, now say the same in <number> sentences.",
    "What would change if it were <day> instead?",
    "Please put the <field> first and leave out <thing>.",
    "Is that also true when it is counted in <unit>?",
)
DETAILS = (
    "It concerns <thing>, which arrived on <day> with the wrong <field>.",
    "My colleague says the <field> was entered in <unit>, but I am not sure.",
    "There were <number> attempts before that, none of which touched <thing>.",
    "The last note in the file mentions <thing> and nothing else.",
    "We tried it again on <day> and the <field> stayed the same.",
    "For reference, <number> of our sites use <thing> every day.",
    "Someone wrote that <thing> had been replaced, though the <field> says otherwise.",
    "If it helps, the total was about <number> <unit> higher than expected.",
)
SLOTS = (
    (
        "<thing>",
        (
            "the return label",
            "the north pump",
            "invoice seven",
            "the spare rotor",
            "the night shuttle",
            "the lens order",
            "the parser module",
            "the harbour permit",
            "the blue ledger",
            "the morning roster",
            "the backup tariff",
            "the intake form",
        ),
    ),
    (
        "<field>",
        (
            "order number",
            "meter reading",
            "postal code",
            "batch code",
            "due date",
            "room number",
            "reference",
            "opening balance",
        ),
    ),
    ("<unit>", ("euros", "kilowatt hours", "pallets", "millimetres", "nautical miles", "minutes", "litres")),
    (
        "<day>",
        (
            "Monday",
            "Tuesday",
            "Wednesday",
            "Thursday",
            "Friday",
            "the first of March",
            "the last Sunday",
        ),
    ),
    ("<number>", ("three", "five", "seven", "twelve", "twenty", "forty")),
)
