// Package canary generates definitions of graphs over Secrets with a value that is easy to find,
// and finds it in texts.
package canary

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Value is the value of each key of the Secrets. It is no number, date, URL or quantity, so that
// its conversion fails with an error that quotes it, and a valid name and label.
const Value = "canary-0815-hunter2"

// Secrets are the Secrets that definitions read, in a namespace.
func Secrets(namespace string) []string {
	encoded := base64.StdEncoding.EncodeToString([]byte(Value))
	var out []string
	for _, name := range []string{"db", "other"} {
		out = append(out, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {db: "yes"}, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data": "%s"}'}}, data: {password: %[4]s, user: %[4]s}}`,
			name, namespace, Value, encoded))
	}
	return out
}

// window is the length of a part of the value, or of its base64, that counts as the value.
const window = 8

var parts = func() (out []string) {
	texts := []string{Value}
	for shift := range 3 { // by its place in a longer text, its base64 differs
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + Value))
		texts = append(texts, strings.TrimRight(encoded[(shift*8+5)/6:len(encoded)-4], "="))
	}
	for _, text := range texts {
		for i := range len(text) - window + 1 {
			out = append(out, text[i:i+window])
		}
	}
	return out
}()

// Find returns a part of the value in a text, with what surrounds it; empty if there is none.
func Find(text string) string {
	for _, part := range parts {
		if i := strings.Index(text, part); i >= 0 {
			return text[max(0, i-150):min(len(text), i+window+150)]
		}
	}
	return ""
}

// generator generates expressions. Each text is an expression without its delimiters.
type generator struct {
	*rand.Rand
	// strings, maps and lists are expressions without operands.
	strings, maps, lists []string
}

// Definition generates the spec of a definition of a kind, as YAML. It need not compile, but mostly
// does.
func Definition(r *rand.Rand, kind string) string {
	g := &generator{
		Rand: r,
		strings: []string{"schema.metadata.name", "'plain'", "schema.spec.text", "db.metadata.name", "string(db.data.password)", "string(db.data['user'])",
			"db.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']"},
		maps: []string{"db.data.transformMap(k, v, string(v))", "{'a': 'b'}"},
		lists: []string{"['a', 'b']", "db.data.map(k, k)", "db.data.map(k, string(db.data[k]))", "others.map(o, o.metadata.name)",
			"others.map(o, string(o.data.password))", "schema.spec.list"},
	}
	var b strings.Builder
	node := func(format string, args ...any) { fmt.Fprintf(&b, "  - "+format+"\n", args...) }
	node("{id: db, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: db}}}")
	node("{id: others, externalRef: {apiVersion: v1, kind: Secret, metadata: {selector: {matchLabels: {db: 'yes'}}}}}")
	for i := range r.IntN(3) {
		switch r.IntN(3) {
		case 0:
			node("{id: v%d, value: %s}", i, g.quote(g.text(3)))
			g.strings = append(g.strings, fmt.Sprintf("v%d", i))
		case 1:
			node("{id: v%d, value: {text: %s, plain: a, list: [b, %s]}}", i, g.quote(g.text(3)), g.quote(g.text(2)))
			g.strings = append(g.strings, fmt.Sprintf("v%d.text", i), fmt.Sprintf("v%d.plain", i))
			g.lists = append(g.lists, fmt.Sprintf("v%d.list", i))
		default:
			node("{id: v%d, value: %s}", i, g.quote(g.table(3)))
			g.maps = append(g.maps, fmt.Sprintf("v%d", i))
		}
	}
	node("{id: own, template: {apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: %s}}}", g.quote(g.text(3)))
	g.strings = append(g.strings, "own.stringData.a", "own.metadata.name")
	for i := range 1 + r.IntN(3) {
		id := fmt.Sprintf("config%d", i)
		node("%s", g.config(id))
		g.strings = append(g.strings, id+".data['a']", id+".metadata.name", id+".metadata.annotations.n")
		g.maps = append(g.maps, id+".data")
	}
	if r.IntN(2) == 0 {
		node("{id: cells, forEach: [{item: %s}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'item-${item}'}, data: {a: %s}}}",
			g.quote(g.list(2)), g.quote(g.text(2)))
		g.lists = append(g.lists, "cells.map(i, i.data.a)", "cells.map(i, i.metadata.name)")
	}
	var status strings.Builder
	for i := range 1 + r.IntN(4) {
		value := g.text(4)
		switch r.IntN(6) {
		case 0:
			value = g.list(3)
		case 1:
			value = g.table(3)
		case 2:
			value = g.truth(3)
		}
		fmt.Fprintf(&status, "s%d: %s, ", i, g.quote(value))
	}
	if r.IntN(3) == 0 {
		fmt.Fprintf(&status, "conditions: [%s], ", g.quote(fmt.Sprintf("runtime.newCondition({type: 'Mine', status: %s ? 'True' : 'False', message: %s})",
			g.truth(2), g.text(3))))
	}
	return fmt.Sprintf("schema: {kind: %s, apiVersion: v1alpha1, spec: {text: string | default=text, list: '[]string | default=[\"x\"]'}, status: {%s}}\nresources:\n%s",
		kind, strings.TrimSuffix(status.String(), ", "), b.String())
}

// config generates a ConfigMap, as a YAML flow mapping.
func (g *generator) config(id string) string {
	name, labels := quoteAfter(id, ""), "{fixed: a}"
	data := fmt.Sprintf("{a: %s, b: %s}", g.quote(g.text(3)), quoteAfter("b", g.text(2)))
	if g.IntN(4) == 0 {
		data = g.quote(g.table(3))
	}
	if g.IntN(4) == 0 {
		labels = fmt.Sprintf("{computed: %s}", g.quote(g.text(2)))
	}
	if g.IntN(5) == 0 {
		name = quoteAfter(id+"-", g.text(1))
	}
	var more string
	if g.IntN(4) == 0 {
		more += fmt.Sprintf(", includeWhen: [%s]", g.quote(g.truth(2)))
	}
	switch g.IntN(6) {
	case 0:
		more += fmt.Sprintf(", readyWhen: [%s]", g.quote(id+".data['a'] == 'never'"))
	case 1:
		more += fmt.Sprintf(", readyWhen: [%s]", g.quote("int("+id+".data['a']) > 1"))
	case 2:
		more += fmt.Sprintf(", readyWhen: [%s]", g.quote(id+".data["+id+".data['a']] == 'never'"))
	}
	if g.IntN(5) == 0 {
		more += ", waitFor: {db: {fields: [{path: data.password, pattern: '^[0-9]$'}]}}"
	}
	return fmt.Sprintf("{id: %s, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: %s, annotations: {n: %s}}, data: %s}%s}", id,
		name, labels, g.quote(g.text(2)), data, more)
}

// quote is an expression as a string of a YAML flow mapping.
func (g *generator) quote(expression string) string { return quoteAfter("", expression) }

// quoteAfter is a text, followed by an expression if there is one.
func quoteAfter(text, expression string) string {
	if expression != "" {
		text += "${" + expression + "}"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func pick(g *generator, of []string) string { return of[g.IntN(len(of))] }

// text generates an expression for a string.
func (g *generator) text(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return pick(g, g.strings)
	}
	a := func() string { return g.text(depth - 1) }
	switch g.IntN(20) {
	case 0:
		return a() + " + " + a()
	case 1:
		return fmt.Sprintf("(%s ? %s : %s)", g.truth(depth-1), a(), a())
	case 2:
		return fmt.Sprintf("(%s).replace('a', 'a')", a())
	case 3:
		return fmt.Sprintf("base64.encode(bytes(%s))", a())
	case 4:
		return fmt.Sprintf("(%s).lowerAscii()", a())
	case 5:
		return fmt.Sprintf("%s.join(',')", g.list(depth-1))
	case 6:
		return fmt.Sprintf("%s[0]", g.list(depth-1))
	case 7:
		return fmt.Sprintf("%s['a']", g.table(depth-1))
	case 8:
		return fmt.Sprintf("%s[?'a'].orValue(%s)", g.table(depth-1), a())
	case 9:
		return fmt.Sprintf("cel.bind(x, %s, x + '!')", a())
	case 10:
		return fmt.Sprintf("json.marshal(%s)", g.table(depth-1))
	case 11:
		return fmt.Sprintf("string(int(%s))", a()) // fails, and quotes the value
	case 12:
		return fmt.Sprintf("string(timestamp(%s))", a())
	case 13:
		return fmt.Sprintf("string(duration(%s))", a())
	case 14:
		return fmt.Sprintf("url(%s).getHost()", a())
	case 15:
		return fmt.Sprintf("string(quantity(%s).asInteger())", a())
	case 16:
		return fmt.Sprintf("%s[%s]", g.table(depth-1), a()) // a missing key
	case 17:
		return fmt.Sprintf("string(json.unmarshal(%s).a)", a())
	case 18:
		return fmt.Sprintf("string(size(%s))", g.list(depth-1))
	default:
		return fmt.Sprintf("(%s).split('x')[0]", a())
	}
}

// truth generates an expression for a boolean.
func (g *generator) truth(depth int) string {
	if depth == 0 {
		return pick(g, []string{"true", "has(db.data.password)", "'user' in db.data", "size(db.data) > 1", "string(db.data.user) == 'x'"})
	}
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("%s == %s", g.text(depth-1), g.text(depth-1))
	case 1:
		return fmt.Sprintf("%s in %s", g.text(depth-1), g.list(depth-1))
	case 2:
		return fmt.Sprintf("%s in %s", g.text(depth-1), g.table(depth-1))
	case 3:
		return fmt.Sprintf("size(%s) > 1", g.list(depth-1))
	case 4:
		return fmt.Sprintf("%s.exists(e, e == %s)", g.list(depth-1), g.text(depth-1))
	default:
		return fmt.Sprintf("!(%s)", g.truth(depth-1))
	}
}

// list generates an expression for a list of strings.
func (g *generator) list(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return pick(g, g.lists)
	}
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("[%s, %s]", g.text(depth-1), g.text(depth-1))
	case 1:
		return fmt.Sprintf("%s.map(x, x + %s)", g.list(depth-1), g.text(depth-1))
	case 2:
		return fmt.Sprintf("%s.filter(x, x != %s)", g.list(depth-1), g.text(depth-1))
	case 3:
		return fmt.Sprintf("%s.map(k, k)", g.table(depth-1))
	case 4:
		return fmt.Sprintf("%s.transformList(k, v, v)", g.table(depth-1))
	default:
		return fmt.Sprintf("(%s + %s)", g.list(depth-1), g.list(depth-1))
	}
}

// table generates an expression for a map of strings.
func (g *generator) table(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return pick(g, g.maps)
	}
	switch g.IntN(5) {
	case 0:
		return fmt.Sprintf("{'a': %s, 'b': %s}", g.text(depth-1), g.text(depth-1))
	case 1:
		return fmt.Sprintf("{%s: %s}", g.text(depth-1), g.text(depth-1))
	case 2:
		return fmt.Sprintf("%s.merge(%s)", g.table(depth-1), g.table(depth-1))
	case 3:
		return fmt.Sprintf("%s.transformMap(k, v, v + %s)", g.table(depth-1), g.text(depth-1))
	default:
		return fmt.Sprintf("%s.transformMap(k, v, k)", g.table(depth-1))
	}
}
