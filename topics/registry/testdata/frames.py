"""Writes frames.json: records as Confluent's serializers frame them, with their schemas and the JSON that they are.

pip install 'confluent-kafka[avro,protobuf,json,schemaregistry]==2.16.1'; python frames.py
"""
import decimal, json
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

client = SchemaRegistryClient.new_client({"url": "mock://"})
context = SerializationContext("payments", MessageField.VALUE)
out = []


def add(kind, text, frame, value):
    out.append({"type": kind, "text": text, "frame": frame.hex(), "json": value})


avro = json.dumps({"type": "record", "name": "Payment", "fields": [
    {"name": "id", "type": "long"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "country", "type": ["null", "string"]}, {"name": "plan", "type": ["string", "null"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "tags", "type": {"type": "array", "items": {"type": "record", "name": "Tag", "fields": [{"name": "n", "type": "int"}]}}},
    {"name": "first", "type": ["null", "Tag"]},
    {"name": "rates", "type": {"type": "map", "values": "double"}}]})
value = {"id": -7_000_000_000, "country": "Grün", "plan": None, "at": 1774800000123456, "tags": [{"n": 1}, {"n": -2}],
         "first": {"n": 3}, "rates": {"a": .25}}
frame = AvroSerializer(client, avro)({**value, "amount": decimal.Decimal("-12.50")}, context)
add("AVRO", avro, frame, {**value, "amount": -12.5})

file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
field = descriptor_pb2.FieldDescriptorProto
file.message_type.add(name="Ignored")
order = file.message_type.add(name="Order")
for number, (name, kind) in enumerate([("id", field.TYPE_SINT64), ("country", field.TYPE_STRING), ("amount", field.TYPE_DOUBLE), ("parts", field.TYPE_INT32), ("at", field.TYPE_MESSAGE)], 1):
    order.field.add(name=name, number=number, type=kind, label=field.LABEL_REPEATED if name == "parts" else field.LABEL_OPTIONAL,
                    type_name=".google.protobuf.Timestamp" if name == "at" else None)
pool = descriptor_pool.DescriptorPool()
pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
pool.Add(file)
Order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
m = Order(id=-5, country="DE", amount=1.5, parts=[1, 300])
m.at.seconds = 1774800000
frame = ProtobufSerializer(Order, client, {"use.deprecated.format": False})(m, SerializationContext("orders", MessageField.VALUE))
proto = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; message Ignored {}
message Order { sint64 id = 1; string country = 2; double amount = 3; repeated int32 parts = 4; google.protobuf.Timestamp at = 5; }"""
add("PROTOBUF", proto, frame, {"id": -5, "country": "DE", "amount": 1.5, "parts": [1, 300], "at": "2026-03-29T16:00:00Z"})

schema = json.dumps({"title": "P", "type": "object", "properties": {"id": {"type": "integer"}}})
frame = JSONSerializer(schema, client)({"id": 9}, SerializationContext("plain", MessageField.VALUE))
add("JSON", schema, frame, {"id": 9})
json.dump(out, open("frames.json", "w"), indent="\t", ensure_ascii=False)
