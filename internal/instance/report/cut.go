package report

import "github.com/espalier-dev/espalier/internal/diag"

// What one blocker may say at most: it is repeated on every ancestor, and some of
// it comes from objects that anybody may write.
const (
	longestMessage = 512
	longestName    = 253
	mostFinalizers = 10
	mostManagers   = 5
)

// Cut is the hold with nothing longer than may be told.
func (h Hold) Cut() Hold {
	h.Message = diag.Shorten(h.Message, longestMessage)
	h.Reason = Reason(diag.Cut(string(h.Reason), longestName))
	for _, text := range []*string{&h.Object.APIVersion, &h.Object.Kind, &h.Object.Namespace, &h.Object.Name} {
		*text = diag.Cut(*text, longestName)
	}
	if len(h.Finalizers) > mostFinalizers {
		h.Finalizers = h.Finalizers[:mostFinalizers]
	}
	cut := make([]Finalizer, len(h.Finalizers))
	for i, f := range h.Finalizers {
		cut[i] = Finalizer{Name: diag.Cut(f.Name, longestName)}
		for _, manager := range f.Managers[:min(len(f.Managers), mostManagers)] {
			cut[i].Managers = append(cut[i].Managers, diag.Cut(manager, longestName))
		}
	}
	if len(cut) > 0 {
		h.Finalizers = cut
	}
	return h
}
