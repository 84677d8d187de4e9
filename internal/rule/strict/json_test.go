package strict

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir/test/kit/golden"
)

// TestParseJSONRejects: testdata/rejected.golden has documents and their mistakes; those with other characters are here.
func TestParseJSONRejects(t *testing.T) {
	golden.Lines(t, "testdata/rejected.golden", func(doc string) string {
		n, err := ParseJSON([]byte(doc))
		if n != nil || err == nil {
			t.Fatalf("%s is taken", doc)
		}
		return err.Error()
	})
	deep := strings.Repeat("[", MaxDepth+1)
	var wide strings.Builder
	for i := range maxFields + 1 {
		wide.WriteString(`,"` + strconv.Itoa(i) + `":0`)
	}
	for _, test := range []struct{ doc, want string }{
		{``, `1:1: the document ends where a value is expected`},
		{`  `, `1:3: the document ends where a value is expected`},
		{"{\"a\":1,\n \"a\":2}", `2:2: field "a" is given twice; remove one`},
		{"\"a\nb\"", `1:3: a control character stands in a string; escape it`},
		{"\"\xff\"", `1:2: a string is not valid UTF-8; encode it`},
		{"\ufeff{}", `1:1: found '\ufeff' where a value is expected`},
		{deep, `1:33: lists and objects are nested more than 32 deep`},
		{"{" + wide.String()[1:] + "}", `1:1940: an object has more than 256 fields`},
		{strings.Repeat(" ", MaxBytes+1), `the document has 4194305 bytes; at most 4194304 are allowed`},
	} {
		n, err := ParseJSON([]byte(test.doc))
		if n != nil || err == nil || err.Error() != test.want {
			t.Errorf("%.40q: node %v, error %v\nwant %s", test.doc, n, err, test.want)
		}
	}
}

// plain turns a node into what encoding/json reads.
func plain(n *Node) any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Int, Number:
		return json.Number(n.Text)
	case String:
		return n.Text
	case List:
		list := []any{}
		for i := range n.Items {
			list = append(list, plain(&n.Items[i]))
		}
		return list
	case Object:
		object := map[string]any{}
		for i := range n.Fields {
			object[n.Fields[i].Name] = plain(&n.Fields[i].Value)
		}
		return object
	}
	return nil
}

// FuzzParseJSON: what is taken is JSON and means what encoding/json reads; what encoding/json rejects is rejected.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00",true,false,null,{}]}`, `"\"\\\/\b\f\n\r\t"`, `[[],[[]]]`, `0`, `-0`, `"é"`, ` 1 `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		n, err := ParseJSON(doc)
		if err != nil {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(doc))
		decoder.UseNumber()
		var want any
		if err := decoder.Decode(&want); err != nil {
			t.Fatalf("encoding/json rejects it: %v", err)
		}
		got, _ := json.Marshal(plain(n))
		if want, _ := json.Marshal(want); !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// FuzzAppendString: what is written is read back.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", `"\/`, "\x00\x1f\x7f", "é😀\u2028", "\xff\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		doc := AppendString(nil, s)
		n, err := ParseJSON(doc)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if utf8.ValidString(s) && n.Text != s {
			t.Errorf("got %q, want %q", n.Text, s)
		}
		var std string
		if err := json.Unmarshal(doc, &std); err != nil || std != n.Text {
			t.Errorf("encoding/json reads %q (%v), want %q", std, err, n.Text)
		}
	})
}
