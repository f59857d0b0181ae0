"""Runs modules of CPython's own test suite and writes one line a test: its outcome and its name.

usage: python outcomes.py FILE MODULE...

regrtest would do, but for the results of single tests it needs XML, thus expat, which Debian's source
package leaves out.
"""

import sys
import unittest


class Outcomes(unittest.TextTestResult):
    """Writes each outcome at once: a crash loses none of those before it."""

    def startTest(self, test):
        super().startTest(test)
        self.outcome = "ok"

    def stopTest(self, test):
        super().stopTest(test)
        out.write(f"{self.outcome} {test.id()}\n")

    def addError(self, test, error):
        super().addError(test, error)
        self.outcome = "failed"
        if not isinstance(test, unittest.TestCase):
            # The setting up of a class or a module: there is no test to start or stop.
            out.write(f"failed {test}\n")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.outcome = "failed"

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.outcome = "failed"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = "skipped"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = "failed"


with open(sys.argv[1], "w", buffering=1) as out:
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])
    runner = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Outcomes)
    done = runner.run(suite)
    out.write("end\n")
sys.exit(not done.wasSuccessful())
