package kube_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/kube"
)

// TestAnErrorOfAWebhookIsBoundedAndPrintable keeps what the error is, for those who decide by it.
func TestAnErrorOfAWebhookIsBoundedAndPrintable(t *testing.T) {
	answer := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 403, Reason: metav1.StatusReasonForbidden, Message: "denied:\n\x1b[2J" + strings.Repeat("x", 1<<20) + "\r\nfor a reason",
	}}
	err := kube.Concise(answer)
	text := err.Error()
	if len(text) > 8<<10 || !strings.HasPrefix(text, `denied: \x1b[2Jxx`) || !strings.HasSuffix(text, "xx for a reason") {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
	if !apierrors.IsForbidden(err) {
		t.Error("the error is not Forbidden any more")
	}
	if short := apierrors.NewBadRequest("no"); kube.Concise(short) != error(short) {
		t.Error("an error that is fit to be shown is wrapped")
	}
}
