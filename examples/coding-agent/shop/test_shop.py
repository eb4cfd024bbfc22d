import unittest

from shop import total


class TotalTest(unittest.TestCase):
    def test_total_of_several_pieces(self) -> None:
        assert total(4900, 3) == 14700


if __name__ == "__main__":
    unittest.main()
