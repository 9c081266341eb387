package operation_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// maxMessage is what an event's note holds.
const maxMessage = 1024

// TestMessagesAreBoundedAndSanitized has an external API return very long messages with control
// characters.
func TestMessagesAreBoundedAndSanitized(t *testing.T) {
	long := "begin \x1b[2J\r\n\u202e\xff " + strings.Repeat("größer ", 20_000) + " end"
	mark := &external.Mark{ID: "other", Owner: long}
	bound := func() operation.State {
		return operation.State{
			Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
			Requests: map[external.Verb]external.Request{},
			Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingBound, Ref: "a"},
		}
	}
	cases := map[string]func() operation.State{
		"an error of Observe": func() operation.State {
			s := bound()
			s.ObserveErr = errors.New(long)
			return s
		},
		"an error of a call": func() operation.State {
			s := bound()
			s.Binding.Operation = &binding.BindingOperation{Verb: "Update", Attempt: 1, StartedAt: metav1.NewMicroTime(start)}
			s.SetAnswer(external.Op{Err: &external.OpError{Message: long}}, nil)
			return s
		},
		"the message of Ready": func() operation.State {
			s := bound()
			s.Observed = &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.Yes, Ready: external.No, Message: long}
			return s
		},
		"the owner of a mark": func() operation.State {
			s := bound()
			s.Observed = &external.Observation{Presence: external.Present, Ref: "a", Mark: mark}
			return s
		},
		"the message of an event": func() operation.State {
			s := bound()
			s.Resource.Deleting, s.Resource.DeletesExternal = true, true
			s.Observed = &external.Observation{Presence: external.Present, Ref: "a", Mark: mark}
			return s
		},
		"a message in the Binding": func() operation.State {
			s := lost()
			s.Binding.Unresolved, s.Binding.Explicit, s.Resource.ExternalName = nil, true, "id-9"
			s.Observed = &external.Observation{Presence: external.Present, Ref: "id-9", Mark: mark}
			return s
		},
	}
	for name, of := range cases {
		t.Run(name, func(t *testing.T) {
			step := operation.Next(of())
			said := []string{step.Synced.Message, step.Ready.Message, step.Event.Message}
			if step.Binding != nil && step.Binding.Unresolved != nil {
				said = append(said, step.Binding.Unresolved.Message)
			}
			if step.Err != nil {
				said = append(said, step.Err.Error())
			}
			if len(strings.Join(said, "")) == 0 {
				t.Fatalf("nothing is said: %s", step.Do)
			}
			for _, text := range said {
				if len(text) > maxMessage {
					t.Errorf("it says %d bytes", len(text))
				}
				if !utf8.ValidString(text) {
					t.Error("it is cut within a character")
				}
				if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }); i >= 0 {
					t.Errorf("it says %q", text[i:i+4])
				}
			}
		})
	}
}

// TestShortMessagesAreUnchanged also checks that both ends of a long message are kept: its end
// usually has the remedy.
func TestShortMessagesAreUnchanged(t *testing.T) {
	if step := operation.Failure(errors.New("größer als erlaubt")); step.Synced.Message != "größer als erlaubt" {
		t.Errorf("it says %q", step.Synced.Message)
	}
	step := operation.Failure(errors.New("the beginning " + strings.Repeat("ü", 5000) + " the end"))
	if text := step.Synced.Message; !strings.HasPrefix(text, "the beginning ") || !strings.HasSuffix(text, " the end") {
		t.Errorf("it says %q", text)
	}
}
