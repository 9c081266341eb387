// Package webhook answers the API server when it asks whether a labelled object may be
// deleted, and when it wants an object in another version, and sees to it that it asks:
// over TLS, with a certificate of its own making.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Path is where deletions are asked about.
const Path = "/usages"

// largest bounds a request: an object as large as the API server stores, with what is
// around it.
const largest = 8 << 20

// Uses knows who uses an object, and takes note of attempts to delete it.
type Uses interface {
	Of(ctx context.Context, o *unstructured.Unstructured) ([]usage.Use, error)
	Tried(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error
}

// Handler answers whether an object may be deleted. Whatever is sent, it answers.
type Handler struct {
	Uses Uses
	Log  logr.Logger
}

// ServeHTTP answers an AdmissionReview with one.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer recovered(w, h.Log)
	if r.Method != http.MethodPost {
		http.Error(w, "an AdmissionReview is posted", http.StatusMethodNotAllowed)
		return
	}
	review, err := read(http.MaxBytesReader(w, r.Body, largest))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: h.answer(r.Context(), review.Request)}
	answer.Response.UID = review.Request.UID
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "no answer can be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // who doesn't wait for it has gone
}

// recovered answers, where a mistake in the program would leave it open. It is deferred.
func recovered(w http.ResponseWriter, log logr.Logger) {
	if p := recover(); p != nil {
		log.Info("a mistake in the program", "type", fmt.Sprintf("%T", p)) // its value may hold what a Secret holds
		http.Error(w, "a mistake in the program", http.StatusInternalServerError)
	}
}

// read reads what was sent.
func read(body io.Reader) (*admissionv1.AdmissionReview, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, errors.New("it isn't an AdmissionReview")
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Request == nil {
		return nil, fmt.Errorf("it isn't an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	return &review, nil
}

// answer says whether what is asked for may be done.
func (h Handler) answer(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if r.Operation != admissionv1.Delete {
		return &admissionv1.AdmissionResponse{Allowed: true} // nobody asks about that
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(r.OldObject.Raw, &o.Object); err != nil || o.GetKind() == "" || o.GetName() == "" {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "it isn't said which object is to be deleted")
	}
	uses, err := h.Uses.Of(ctx, o)
	switch {
	case err != nil:
		h.Log.Error(err, "it can't be told whether an object is in use", "object", object.KeyOf(o).String())
		return refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "it can't be told whether it is in use: "+err.Error())
	case len(uses) == 0:
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	if r.DryRun == nil || !*r.DryRun {
		if err := h.Uses.Tried(ctx, o, policyOf(r)); err != nil { // it is refused all the same
			h.Log.Error(err, "it can't be noted that somebody has tried to delete an object", "object", object.KeyOf(o).String())
		}
	}
	return refuse(http.StatusConflict, inUse, object.KeyOf(o).String()+" is "+usage.Message(uses))
}

// inUse is the reason of a refusal. It isn't Conflict, which says that the object has
// changed.
const inUse metav1.StatusReason = "InUse"

func refuse(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// policyOf is what was asked for of those that depend on the object.
func policyOf(r *admissionv1.AdmissionRequest) metav1.DeletionPropagation {
	var options metav1.DeleteOptions
	if json.Unmarshal(r.Options.Raw, &options) == nil && options.PropagationPolicy != nil {
		return *options.PropagationPolicy
	}
	return metav1.DeletePropagationBackground
}
