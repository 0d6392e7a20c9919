"""The parser of .proto files, beside protoc.

Run as: schema_test.py
"""

import subprocess
import tempfile
import unittest
from pathlib import Path

import package_path  # noqa: F401
from google.protobuf import descriptor_pb2
from pilotfish import schema

PROTO = package_path.ROOT / "proto" / "pilotfish.proto"


def without_json_names(file):
    def clear(message):
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            clear(nested)

    for message in file.message_type:
        clear(message)
    return file


class SchemaTest(unittest.TestCase):
    def test_the_descriptor_is_that_of_protoc(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "set"
            subprocess.run(["protoc", f"--proto_path={PROTO.parent}", f"--descriptor_set_out={out}", PROTO.name], check=True)
            expected, = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
        self.assertEqual(schema.parse(PROTO.read_text(), "pilotfish.proto"), without_json_names(expected))

    def test_the_package_reads_the_proto_of_the_tree(self):
        self.assertEqual((package_path.PACKAGE / "pilotfish" / "schema.proto").resolve(), PROTO)

    def test_what_it_does_not_read_is_named(self):
        for source, word in (("message A { optional int32 c = 1; }", "expected '='"), ("message A { B c = 1; }", "'B'"),
                             ("import \"x\";", "import"), ("message A { int32 b = 1", "None|early"), ("message A [", r"\['"),
                             ("service S { option x = 1; }", "option")):
            with self.subTest(source), self.assertRaisesRegex(ValueError, word):
                schema.parse(f'syntax = "proto3"; package p; {source}', "x.proto")


if __name__ == "__main__":
    unittest.main(verbosity=2)
