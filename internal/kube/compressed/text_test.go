package compressed_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/compressed"
)

func TestTextsComeBack(t *testing.T) {
	long := strings.Repeat("a long text, longer than the window; ", 3000)
	var f compressed.Family
	for _, text := range []string{"", "the first one is the dictionary", "", "x", "the first one", long, long + "x", "\x00\xff\x00"} {
		if got := f.Compress([]byte(text)).Bytes(); string(got) != text {
			t.Errorf("%.40q came back as %.40q", text, got)
		}
	}
	var longFirst compressed.Family
	for _, text := range []string{long, "x", long} {
		if got := longFirst.Compress([]byte(text)).Bytes(); string(got) != text {
			t.Errorf("after a long text, %.40q came back as %.40q", text, got)
		}
	}
	if got := (compressed.Text{}).Bytes(); got != nil {
		t.Errorf("the zero value is %q", got)
	}
}

func TestTheTextIsTheCallers(t *testing.T) {
	var f compressed.Family
	source := []byte("the first one is the dictionary")
	text := f.Compress(source)
	clear(source)
	got := text.Bytes()
	clear(got)
	if again := text.Bytes(); string(again) != "the first one is the dictionary" {
		t.Errorf("after changes of its source and of a result, the text is %q", again)
	}
}

// TestATextTakesWhatIsItsOwn compares the memory of a text that resembles the first one with that of one that does not.
func TestATextTakesWhatIsItsOwn(t *testing.T) {
	fields := func(prefix string) []byte {
		var b bytes.Buffer
		for i := range 500 {
			fmt.Fprintf(&b, "%s%d: {type: string}\n", prefix, i*i*7919)
		}
		return b.Bytes()
	}
	var f compressed.Family
	f.Compress(fields("field"))
	similar, other := f.Compress(append(fields("field"), "own: true"...)), f.Compress(fields("other"))
	if similar.Size() > 300 || other.Size() < 5*similar.Size() {
		t.Errorf("a similar text takes %d bytes, another one %d", similar.Size(), other.Size())
	}
}

func TestConcurrentUse(t *testing.T) {
	var f compressed.Family
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				want := strings.Repeat(fmt.Sprint("text ", i, j, ";"), 1+j)
				if got := f.Compress([]byte(want)).Bytes(); string(got) != want {
					t.Errorf("%.40q came back as %.40q", want, got)
				}
			}
		})
	}
	all.Wait()
}
