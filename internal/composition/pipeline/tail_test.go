package pipeline

import (
	"io"
	"strings"
	"testing"
)

func TestTheEndOfAnOutputSaysThatThereWasMore(t *testing.T) {
	out := &tail{next: io.Discard}
	_, _ = io.WriteString(out, "all of it\n")
	if got := out.String(); got != "all of it" {
		t.Errorf("got %q", got)
	}
	_, _ = io.WriteString(out, strings.Repeat("x", tailBytes))
	if got := out.String(); got != "…"+strings.Repeat("x", tailBytes) {
		t.Errorf("got %q", got)
	}
}
