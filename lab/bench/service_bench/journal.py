"""What was measured, a line a round, so that a run can stop and go on."""
import json
import os


class Journal:
    """rounds.jsonl in the output folder. A round of a cell (every contender once, one after the other) is written when
    all of it was measured, so pairs are always of one moment on one machine."""

    def __init__(self, folder, resume):
        self._path = os.path.join(folder, "rounds.jsonl")
        self.rounds = []
        if os.path.exists(self._path):
            if not resume:
                raise FileExistsError(f"{self._path} is there already: go on with --resume, or choose another --out")
            self.rounds = [json.loads(line) for line in self._whole_lines()]
        self._done = {(r["section"], r["cell"], r["round"]) for r in self.rounds}

    def _whole_lines(self):
        """A line that was cut off, by a kill in the middle of a write, is taken out: its round is measured again."""
        with open(self._path, "rb+") as file:
            text = file.read()
            whole = text[:text.rfind(b"\n") + 1]
            file.truncate(len(whole))
        return whole.splitlines()

    def has(self, section, cell, number):
        return (section, cell, number) in self._done

    def add(self, section, cell, number, windows):
        """`windows`: {contender: {"row": ..., "figures": ...}} in the order they were measured."""
        entry = {"section": section, "cell": cell, "round": number, "windows": windows}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.rounds.append(entry)
        self._done.add((section, cell, number))

    def of(self, section, cell=None):
        return [r for r in self.rounds if r["section"] == section and cell in (None, r["cell"])]

    def cells(self, section):
        return list(dict.fromkeys(r["cell"] for r in self.of(section)))

    def pairs(self, section, cell, contender, reference, figure, reference_figure=None):
        """[(figure of the contender, figure of the reference)] of the rounds that have both."""
        found = []
        for entry in self.of(section, cell):
            windows = entry["windows"]
            if contender in windows and reference in windows:
                found.append((windows[contender]["figures"].get(figure),
                              windows[reference]["figures"].get(reference_figure or figure)))
        return found

    def values(self, section, cell, contender, figure):
        return [entry["windows"][contender]["figures"].get(figure) for entry in self.of(section, cell)
                if contender in entry["windows"]]
