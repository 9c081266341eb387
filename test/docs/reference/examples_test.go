package reference

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// example is what an example is made of: its first block is an input, and the others are
// further inputs and what comes of them.
type example struct {
	page   *page
	blocks []block
}

// kindsOfBlocks says of each block that there may be what becomes of it.
var kindsOfBlocks = map[string]struct{ begins, shows bool }{
	"yaml definition":   {begins: true},
	"yaml simpleschema": {begins: true},
	"yaml xrd":          {begins: true},
	"yaml instance":     {},
	"yaml cluster":      {},
	"yaml composition":  {},
	"yaml objects":      {shows: true},
	"yaml status":       {shows: true},
	"yaml openapi":      {shows: true},
	"text problems":     {shows: true},
	"text columns":      {shows: true},
}

// examples are those of a page. A block that belongs to none fails the test: nothing is shown
// that is not run.
func examples(t *testing.T, p *page) []example {
	t.Helper()
	var out []example
	for _, b := range p.blocks() {
		kind, known := kindsOfBlocks[b.info]
		switch {
		case b.info == "yaml sample": // see TestTheSampleIsOnThePage
		case b.info == "yaml configuration": // see TestTheReferenceHasAllFields of internal/program/server
		case b.info == "sh": // see TestDocumentedCommandsAreRun
		case !known:
			t.Errorf("%s: no test runs a block of %q", b.at(p), b.info)
		case kind.begins:
			out = append(out, example{page: p, blocks: []block{b}})
		case len(out) == 0:
			t.Errorf("%s: %q belongs to no example", b.at(p), b.info)
		default:
			last := &out[len(out)-1]
			last.blocks = append(last.blocks, b)
		}
	}
	for _, e := range out {
		shows := false
		for _, b := range e.blocks {
			shows = shows || kindsOfBlocks[b.info].shows
		}
		if !shows {
			t.Errorf("%s: the example shows nothing that comes of it", e.blocks[0].at(p))
		}
	}
	return out
}

// TestExamplesEvaluateAsThePagesShow runs every example of the reference.
func TestExamplesEvaluateAsThePagesShow(t *testing.T) {
	for _, name := range names(t) {
		t.Run(strings.TrimSuffix(name, ".md"), func(t *testing.T) {
			p := load(t, name)
			changed := map[block]string{}
			world := newKinds(t)
			for _, e := range examples(t, p) {
				r := run(t, world, e)
				for _, b := range e.blocks {
					if !kindsOfBlocks[b.info].shows {
						continue
					}
					want, got := b.text(p), r.shown(b)
					if equal(b.info, want, got) {
						continue
					}
					changed[b] = got
					if !golden.Update() {
						t.Errorf("%s (-page +actual):\n%s", b.at(p), cmp.Diff(want, got))
					}
				}
			}
			if !golden.Update() || len(changed) == 0 {
				return
			}
			all := p.blocks()
			for i := len(all) - 1; i >= 0; i-- { // from the end, so that the other places stay
				if text, ok := changed[all[i]]; ok {
					p.replace(all[i].first, all[i].last, text)
				}
			}
			p.save(t)
		})
	}
}

// result is what comes of an example, by the block that shows it.
type result map[block]string

func (r result) shown(b block) string { return r[b] }

// run runs an example.
func run(t *testing.T, kinds *kinds, e example) result {
	t.Helper()
	switch e.blocks[0].info {
	case "yaml simpleschema":
		return runSchema(t, e)
	case "yaml xrd":
		return runComposite(t, e)
	default:
		return runGraph(t, kinds, e)
	}
}

// equal compares what a page shows with what there is: YAML by what it says.
func equal(info, want, got string) bool {
	if !strings.HasPrefix(info, "yaml") {
		return want == got
	}
	a, b := documents(want), documents(got)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if yaml.Unmarshal([]byte(a[i]), &x) != nil || yaml.Unmarshal([]byte(b[i]), &y) != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// documents are those of a YAML stream.
func documents(text string) []string {
	var out []string
	for _, d := range strings.Split("\n"+text, "\n---\n") {
		if strings.TrimSpace(d) != "" {
			out = append(out, d)
		}
	}
	return out
}

// decode reads YAML whose fields the type has to know.
func decode(t *testing.T, at, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
}

// encode writes documents of YAML.
func encode(t *testing.T, all ...any) string {
	t.Helper()
	var texts []string
	for _, v := range all {
		raw, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(bytes.TrimSpace(raw))+"\n")
	}
	return strings.Join(texts, "---\n")
}
