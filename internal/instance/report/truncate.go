package report

import "github.com/espalier-dev/espalier/internal/diag"

// Limits of one blocker: it is repeated on every ancestor, and part of it comes from objects
// that any user may write.
const (
	maxMessageLength = 512
	maxNameLength    = 253
	maxFinalizers    = 10
	maxManagers      = 5
)

// Truncated is the object with all texts and lists within their limits.
func (h BlockedObject) Truncated() BlockedObject {
	h.Message = diag.TruncateMiddle(h.Message, maxMessageLength)
	h.Reason = Reason(diag.Truncate(string(h.Reason), maxNameLength))
	for _, text := range []*string{&h.Object.APIVersion, &h.Object.Kind, &h.Object.Namespace, &h.Object.Name} {
		*text = diag.Truncate(*text, maxNameLength)
	}
	if len(h.Finalizers) > maxFinalizers {
		h.Finalizers = h.Finalizers[:maxFinalizers]
	}
	cut := make([]Finalizer, len(h.Finalizers))
	for i, f := range h.Finalizers {
		cut[i] = Finalizer{Name: diag.Truncate(f.Name, maxNameLength)}
		for _, manager := range f.Managers[:min(len(f.Managers), maxManagers)] {
			cut[i].Managers = append(cut[i].Managers, diag.Truncate(manager, maxNameLength))
		}
	}
	if len(cut) > 0 {
		h.Finalizers = cut
	}
	return h
}
