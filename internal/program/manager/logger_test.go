package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func TestWarningsHaveTheirLevel(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, LogText, 0).WithName("permissions").WithValues("kind", "Vpc")
	log.Info("warning: a permission is missing", "verb", "list")
	log.Error(errors.New("warning: none"), "warning: of an error")
	for _, want := range []string{
		`level=WARN msg="a permission is missing" kind=Vpc logger=permissions verb=list`,
		`level=ERROR msg="warning: of an error" kind=Vpc logger=permissions err="warning: none"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line has %s: %s", want, out.String())
		}
	}
}

// TestTheReleaseOfALeaseIsNoError logs what controller-runtime does when a leader is told to stop, and another error of the
// same moment.
func TestTheReleaseOfALeaseIsNoError(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, LogText, 0)
	log.Error(errors.New("leader election lost"), "error received after stop sequence was engaged")
	if out.Len() > 0 {
		t.Errorf("it logs %s", out.String())
	}
	log.Error(errors.New("a controller failed"), "error received after stop sequence was engaged")
	if !strings.Contains(out.String(), "a controller failed") {
		t.Errorf("it logs %q", out.String())
	}
}

// TestAnEventInATerminatingNamespaceIsNoError logs what client-go does with the answer of the API server.
func TestAnEventInATerminatingNamespaceIsNoError(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, LogText, 0).WithName("events")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "a.1", errors.New("not permitted"))
	log.Error(refused, "Server rejected event (will not retry!)", "event", "a")
	if !strings.Contains(out.String(), "not permitted") {
		t.Errorf("it logs %q", out.String())
	}
	out.Reset()
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	log.Error(refused, "Server rejected event (will not retry!)", "event", "a")
	if out.Len() > 0 {
		t.Errorf("it logs %s", out.String())
	}
}
