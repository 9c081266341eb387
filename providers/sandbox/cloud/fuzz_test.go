package cloud

import (
	"bytes"
	"testing"
	"time"
)

// FuzzLoad reads anything as a ledger. It is a world or an error.
func FuzzLoad(f *testing.F) {
	_, ledger, ends := history(f)
	f.Add(ledger)
	f.Add(ledger[:ends[2]])
	f.Add([]byte(title))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, good, err := load(data); err == nil {
			if good > int64(len(data)) {
				t.Fatalf("%d of %d bytes count", good, len(data))
			}
			live(t, w)
		}
	})
}

// FuzzChange reads anything that has the right checksum. What is accepted can be lived
// in, and what comes of that would be accepted again.
func FuzzChange(f *testing.F) {
	_, ledger, _ := history(f)
	for text := range bytes.SplitSeq(bytes.TrimPrefix(ledger, []byte(title)), []byte("\n")) {
		if body, err := unframe(text); err == nil {
			f.Add(body)
		}
	}
	w, _, err := load(ledger)
	must(f, err)
	f.Add([]byte(text(f, w)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.ContainsRune(body, '\n') {
			return
		}
		if w, _, err := load(append([]byte(title), frame(body)...)); err == nil {
			live(t, w)
		}
	})
}

// live does everything that can be done in a world.
func live(t *testing.T, w *world) {
	w.plan()
	for range 3 {
		now := w.Seen.Add(time.Hour)
		w.settle(now)
		for _, r := range w.resources.rows {
			e := Entry{}
			_, _ = w.look(r.Key, now)
			_, _ = w.list(Query{Type: r.Type}, now)
			_, _ = w.do(request{Verb: VerbCreate, Key: Key{Type: r.Type, Scope: r.Scope}, Name: "x", Properties: r.Properties, Token: "x"}, Fault{}, now, &e)
			_, _ = w.do(request{Verb: VerbUpdate, Key: r.Key, Properties: r.Properties}, w.draw(VerbUpdate, r.Type), now, &e)
			_, _ = w.do(request{Verb: VerbDelete, Key: r.Key}, Fault{}, now, &e)
		}
		w.next()
		w.purge(now)
	}
	if err := w.check(); err != nil {
		t.Fatalf("a world that was sound isn't any more: %v", err)
	}
}
