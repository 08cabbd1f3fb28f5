import assert from "node:assert/strict";
import { test } from "node:test";
import { compact, items, members, object, problemOf } from "../../src/lib/json.ts";
import { indented } from "../../src/lib/lines.ts";

test("a number beyond 2^53 keeps its digits", () => {
  const text = '{"amount":9007199254740993,"list":[0.1e400,-0]}';
  assert.equal(members(text).get("amount"), "9007199254740993");
  assert.match(indented(text), /"amount": 9007199254740993,\n/);
  assert.equal(compact(indented(text)), text);
});

test("members are found behind quotes, backslashes and brackets in strings", () => {
  const parts = members(String.raw` { "a\"b" : "x\\" , "c}" : [ "]" , {"d":"\\\""} ] , "e":null } `);
  assert.deepEqual([...parts], [['a"b', String.raw`"x\\"`], ["c}", String.raw`[ "]" , {"d":"\\\""} ]`], ["e", "null"]]);
});

test("what is no object has no members, and what is no array no items", () => {
  for (const text of ["", "1", '"a"', "[1]", "null", "{", "{}", "{1:2}"]) assert.equal(members(text).size, 0, text);
  for (const text of ["", "1", "{}", "[]", "[ ]"]) assert.deepEqual(items(text), [], text);
});

test("of an object that was cut, the members before the cut are found", () => {
  assert.deepEqual([...members('{"status":"running","na')], [["status", '"running"']]);
  assert.deepEqual([...members('{"status":"running","name"')], [["status", '"running"']]);
  assert.deepEqual([...members('{"status":"runn')], [["status", '"runn']]);
});

test("items are those of the outer array", () => {
  assert.deepEqual(items('[1, "a,b" ,[2,3], {"a":[4]}]'), ["1", '"a,b"', "[2,3]", '{"a":[4]}']);
  assert.deepEqual(items("[1}"), ["1"]);
});

test("a text is indented by two spaces, and empty brackets stay together", () => {
  assert.equal(indented('{"a":[],"b":{ },"c":[1,{"d":"e:f,g"}]}'), '{\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    {\n      "d": "e:f,g"\n    }\n  ]\n}');
  assert.equal(indented("17"), "17");
  assert.equal(indented("not json"), "notjson");
});

test("white space inside of strings stays", () => {
  assert.equal(compact('{ "a b" : "c \\" d" }'), '{"a b":"c \\" d"}');
});

test("indenting and compacting change nothing but white space", () => {
  const texts = ['{"a":{"b":[1,2,[3,[]]],"c":"\\u0000"},"d":1e400}', "[[[]]]", '"\\\\"', "[true,false,null]"];
  for (const text of texts) assert.equal(compact(indented(text)), text);
});

test("a mistake is named, and a right text has none", () => {
  assert.equal(problemOf('{"a":1}'), undefined);
  assert.match(problemOf('{"a":1') ?? "", /JSON/);
});

test("an object is made of texts, without those that are undefined", () => {
  assert.equal(object([["id", "9007199254740993"], ["gone", undefined], ["b\"c", "null"]]), '{"id":9007199254740993,"b\\"c":null}');
});
