"""gvbll for pandas: models, backtests and streams of a growing graph, by the program of that name.

Each function writes the tables that it is given as files, runs the program, and reads what it printed: what comes out
is what the command line gives for these files, to the bit. https://github.com/gvbll/gvbll has what the commands mean."""

from ._backtest import Backtest, Picture, backtest
from ._model import Model, train
from ._program import Error
from ._stream import Demo, decide, predictions, send

__all__ = ["Backtest", "Demo", "Error", "Model", "Picture", "backtest", "decide", "predictions", "send", "train"]
