package language

import (
	"testing"
	"unicode/utf16"

	"github.com/espalier-dev/espalier/internal/diag/source"
)

func TestPositionsCountUTF16(t *testing.T) {
	text := NewText("a: ä😀b\r\nc\rd\n\ne")
	for _, test := range []struct {
		at     Position
		offset int
	}{
		{Position{0, 0}, 0}, {Position{0, 4}, 5}, {Position{0, 6}, 9}, {Position{0, 7}, 10},
		{Position{1, 0}, 12}, {Position{2, 0}, 14}, {Position{3, 0}, 16}, {Position{4, 0}, 17}, {Position{4, 1}, 18},
	} {
		if got := text.Offset(test.at); got != test.offset {
			t.Errorf("%v is byte %d, want %d", test.at, got, test.offset)
		}
		if got := text.Position(test.offset); got != test.at {
			t.Errorf("byte %d is %v, want %v", test.offset, got, test.at)
		}
	}
	for _, test := range []struct {
		reason string
		at     Position
		offset int
	}{
		{"inside a surrogate pair", Position{0, 5}, 5}, {"behind a line", Position{0, 99}, 10}, {"behind the text", Position{9, 0}, 18}, {"before the text", Position{-1, 5}, 0},
	} {
		if got := text.Offset(test.at); got != test.offset {
			t.Errorf("%s: %d, want %d", test.reason, got, test.offset)
		}
	}
}

func TestReplace(t *testing.T) {
	text := NewText("one\ntwo\n").Replace(Range{Position{0, 1}, Position{1, 1}}, "😀\n\n")
	if text.String() != "o😀\n\nwo\n" || text.Position(len(text.String())) != (Position{3, 0}) {
		t.Errorf("%q", text.String())
	}
	if got := text.Replace(Range{Position{9, 0}, Position{0, 0}}, "x").String(); got != "x" {
		t.Errorf("a range backwards: %q", got)
	}
}

func FuzzPositions(f *testing.F) {
	f.Add("a: ä😀b\r\nc\rd\n\ne", 5, 1, 2)
	f.Add("\xff\xf0\x9f\n\u2028", 2, 0, 1)
	f.Fuzz(func(t *testing.T, s string, offset, line, character int) {
		text := NewText(s)
		if at := text.Offset(Position{line, character}); at < 0 || at > len(s) {
			t.Fatalf("byte %d", at)
		}
		offset = min(max(offset, 0), len(s))
		p := text.Position(offset)
		back := text.Offset(p)
		if back > offset {
			t.Fatalf("byte %d is at %v, which is byte %d", offset, p, back)
		}
		if again := text.Position(back); again != p {
			t.Fatalf("%v is byte %d, which is at %v", p, back, again)
		}
		if at := text.toSource(offset); text.fromSource(at) > offset {
			t.Fatalf("byte %d is at %v, which is byte %d", offset, at, text.fromSource(at))
		}
		if got := text.fromSource(source.Position{Line: line, Column: character}); got < 0 || got > len(s) {
			t.Fatalf("byte %d", got)
		}
		whole := text.Replace(Range{Position{}, Position{len(s) + 1, 0}}, "")
		if whole.String() != "" {
			t.Fatalf("%q is left", whole.String())
		}
		if inserted := text.Replace(Range{p, p}, "x").String(); len(inserted) != len(s)+1 {
			t.Fatalf("%q", inserted)
		}
		if n := len(utf16.Encode([]rune(s))); p.Character > n {
			t.Fatalf("character %d of %d", p.Character, n)
		}
	})
}
