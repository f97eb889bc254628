#!/usr/bin/env python3
"""Scores the stream of a backtest by HistGradientBoostingClassifier, as somebody would who has a feature table:
boosting.py ROWS SCORES reads what 'gvbll backtest --rows' wrote, and writes what '--scores' takes. It is fitted anew every
fifth of the stream, on the labels that are known by then."""

import sys

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

rows = pd.read_csv(sys.argv[1])
features = rows.columns[4:]
last, parts = rows.step.max(), []
every = -(-last // 5)
for begin in range(1, last + 1, every):
    known = rows[rows.label.notna() & (rows.due < begin)]
    model = HistGradientBoostingClassifier(random_state=1).fit(known[features], known.label)
    now = rows[(rows.step >= begin) & (rows.step < begin + every)]
    scores = pd.DataFrame(model.predict_proba(now[features]), columns=model.classes_, index=now.index)
    parts.append(pd.concat([now.node, scores], axis=1))
pd.concat(parts).to_csv(sys.argv[2], index=False)
