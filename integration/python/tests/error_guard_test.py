"""pilotfish.error_guard: which errors end at it, and what is logged."""

import pickle
import unittest

import package_path  # noqa: F401
from pilotfish.error_guard import ErrorGuard


def ask(errors, error):
    with errors:
        if error is not None:
            raise error
        return "proposals"
    return "none"


class ErrorGuardTest(unittest.TestCase):
    def test_an_error_leaves_no_proposals_and_the_first_is_logged(self):
        errors = pickle.loads(pickle.dumps(ErrorGuard()))
        with self.assertLogs("pilotfish", "ERROR") as logged:
            found = [ask(errors, error) for error in (None, ValueError("the first"), OSError("the second"), None)]
        self.assertEqual(found, ["proposals", "none", "none", "proposals"])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("no proposals: ValueError('the first')", logged.output[0])
        self.assertIn("Traceback", logged.output[0])

    def test_an_interrupt_is_raised(self):
        for interrupt in (KeyboardInterrupt, SystemExit):
            with self.assertRaises(interrupt):
                ask(ErrorGuard(), interrupt())


if __name__ == "__main__":
    unittest.main(verbosity=2)
