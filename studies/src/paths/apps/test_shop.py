import os
import tempfile
import unittest

from shop import Shop


class Orders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.shop = Shop(os.path.join(self.folder.name, "shop.db"))

    def tearDown(self):
        self.shop.close()
        self.folder.cleanup()

    def test_one_order(self):
        self.shop.order({"apple": 2})
        self.assertEqual(self.shop.pieces("apple"), 2)

    def test_many_orders(self):
        for _ in range(20):
            self.shop.order({"apple": 1, "pear": 2, "plum": 3})
        self.assertEqual(self.shop.pieces("plum"), 60)
