package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

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
