"""Everyday English words that say the same: `mom` and `mother` are one word to the judge."""

from __future__ import annotations

from functools import cache

from assay.scoring.text_overlap import tokens

_FAMILIES = """
mother mom mum mama mommy, father dad papa daddy, child kid, grandmother grandma granny, grandfather
grandpa, photo picture image photograph pic, movie film, job career profession occupation, buy purchase
bought, big large huge, small tiny, happy glad joyful pleased delighted joy happiness, sad unhappy,
scared afraid frightened fearful, grateful thankful gratitude appreciative, important crucial essential
vital, amazing awesome incredible wonderful fantastic great, beautiful gorgeous, start begin began begun
commence, finish complete, help assist aid support, create make made, house home, car vehicle automobile,
dog puppy pup, cat kitten kitty, trip journey, vacation holiday, store shop, gift present, tired
exhausted, fast quick rapid, smart intelligent clever, ill sick, buddy friend pal, coworker colleague,
speak talk spoke spoken, repair fix, choose select pick chose chosen, near close nearby, ocean sea,
forest woods, bike bicycle cycling biking, tv television, phone telephone cellphone, teach instruct
taught, calm peaceful relaxed tranquil soothing unwind, excited thrilled, hard difficult tough
challenging, easy simple, annual yearly, author writer, lawyer attorney, sofa couch, trash garbage, baby
infant newborn, go went gone, give gave given, get got gotten receive received, run ran, see saw seen,
meet met, write wrote written, eat ate eaten, think thought, feel felt, bring brought, become became, win
won, lose lost, leave left, tell told, know knew known, grow grew grown, draw drew drawn, drive drove
driven, ride rode ridden, swim swam swum, sing sang sung, fall fell fallen, break broke broken, hear
heard, hold held, keep kept, sleep slept, spend spent, send sent, build built, sell sold, wear wore worn,
fly flew flown, catch caught, pay paid, man men, woman women, person people, foot feet, tooth teeth, wife
wives, life lives, take took taken, food meal, doctor physician, money cash, workout exercise, courage
bravery brave courageous, honest truthful, funny humorous, hobby pastime, area region, stop quit, clothes
clothing apparel, motivate inspire encourage motivation inspiration encouragement, goal aim objective,
idea concept, opportunity chance, collaborate cooperate, organize arrange, discover found find, anxious
nervous worried, relief relieved, proud pride
"""


@cache
def heads() -> dict[str, str]:
    """The stem of each member, and that of its family's first word. No stem is in two families."""
    found: dict[str, str] = {}
    for family in _FAMILIES.split(","):
        (first, *others) = [stem for word in family.split() for stem in tokens(word)]
        for stem in others:
            found[stem] = first
    return found
