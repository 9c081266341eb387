package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
)

// TestLogLinesQuoteTextsOfOthers logs a text that would control a terminal, and an endless one.
func TestLogLinesQuoteTextsOfOthers(t *testing.T) {
	for _, format := range []LogFormat{LogText, LogJSON} {
		var out bytes.Buffer
		log := NewLogger(&out, format, 0)
		log.Info("refused", "reason", "\x1b[2Jno\r\nlevel=INFO msg=granted\u009b31m\u202e")
		log.Error(errors.New(strings.Repeat("\x00", 1<<20)), "refused")
		if lines := strings.Count(out.String(), "\n"); lines != 2 || out.Len() > 3*maxLogged {
			t.Errorf("%s: %d lines with %d bytes", format, lines, out.Len())
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }); i >= 0 {
			t.Errorf("%s: a control character in %q", format, out.String()[i:min(i+10, out.Len())])
		}
	}
}

func TestLogLinesAreTextOrJSON(t *testing.T) {
	var text, lines bytes.Buffer
	NewLogger(&text, LogText, 0).Info("a kind came", "kind", "Vpc")
	if !strings.Contains(text.String(), `msg="a kind came" kind=Vpc`) {
		t.Errorf("text is %q", text.String())
	}
	log := NewLogger(&lines, LogJSON, 1)
	log.V(1).Info("a kind came", "kind", "Vpc")
	log.Error(errors.New("no such kind"), "a kind went", "kind", "Vpc")
	log.V(2).Info("not wanted")
	var got []map[string]any
	for line := range strings.Lines(lines.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, entry)
	}
	if len(got) != 2 || got[0]["msg"] != "a kind came" || got[0]["kind"] != "Vpc" || got[1]["err"] != "no such kind" || got[1]["level"] != "ERROR" {
		t.Errorf("JSON is %v", got)
	}
}
