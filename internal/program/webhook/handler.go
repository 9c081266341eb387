// Package webhook serves the admission webhook that protects objects in use from deletion,
// and the conversion webhook of served kinds. It writes the webhook configuration, and issues
// its own TLS certificates.
// See docs/design/0012-revisions-rollouts-and-versions.md and 0014-usages.md.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Path is the path of the admission webhook.
const Path = "/usages"

// Usages knows the usages of an object, and records attempts to delete it.
type Usages interface {
	UsesOf(ctx context.Context, o *unstructured.Unstructured) ([]usage.Usage, error)
	// RecordDeletionAttempt records a deletion that is refused for the usages.
	RecordDeletionAttempt(ctx context.Context, o *unstructured.Unstructured, attempt Attempt, uses []usage.Usage) error
}

// Attempt is a request to delete an object.
type Attempt struct {
	Policy metav1.DeletionPropagation
	User   authenticationv1.UserInfo
}

// Handler is the admission webhook for deletions. It answers any request, also an invalid one.
type Handler struct {
	Usages Usages
	// Authenticated says that all requests come from the API server. Only then attempts to delete an object are
	// recorded: a recorded one deletes the object when its last usage goes.
	Authenticated bool
	Log           logr.Logger
}

// ServeHTTP answers an AdmissionReview with one.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer recoverPanic(w, h.Log)
	if r.Method != http.MethodPost {
		http.Error(w, "the request is not a POST of an AdmissionReview", http.StatusMethodNotAllowed)
		return
	}
	review, err := read(http.MaxBytesReader(w, r.Body, maxRequest))
	var exceeded *http.MaxBytesError
	switch {
	case errors.As(err, &exceeded):
		tooLarge(w, exceeded.Limit)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: h.answer(r.Context(), review.Request)}
	answer.Response.UID = review.Request.UID
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "cannot encode the response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // it fails only if the client has disconnected
}

// recoverPanic answers the request after a panic. It is deferred.
func recoverPanic(w http.ResponseWriter, log logr.Logger) {
	if p := recover(); p != nil {
		log.Info("panic in a webhook", "panic", diag.Panic(p))
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// admissionReview contains what is needed of an AdmissionReview. The rest, and the data of an object, is not decoded:
// its values would take many times the memory of their bytes.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`

	Request *admissionRequest `json:"request"`
}

type admissionRequest struct {
	UID       types.UID             `json:"uid"`
	Operation admissionv1.Operation `json:"operation"`
	DryRun    bool                  `json:"dryRun"`
	OldObject json.RawMessage       `json:"oldObject"`
	Options   json.RawMessage       `json:"options"`
	UserInfo  json.RawMessage       `json:"userInfo"`
}

func read(body io.Reader) (*admissionReview, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review admissionReview
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, errors.New("the body is not an AdmissionReview")
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Request == nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	return &review, nil
}

// object returns the object to be deleted with what Usages needs of it; nil if it is none.
func (r *admissionRequest) object() *unstructured.Unstructured {
	var decoded struct {
		metav1.TypeMeta `json:",inline"`

		Metadata struct {
			Name        string    `json:"name"`
			Namespace   string    `json:"namespace"`
			UID         types.UID `json:"uid"`
			Annotations struct {
				Attempt string `json:"usage.crossplane.io/deletion-attempt-with-policy"` // v1beta1.DeletionAttemptAnnotation
			} `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(r.OldObject, &decoded); err != nil || decoded.Kind == "" || decoded.Metadata.Name == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(decoded.APIVersion)
	o.SetKind(decoded.Kind)
	o.SetNamespace(decoded.Metadata.Namespace)
	o.SetName(decoded.Metadata.Name)
	o.SetUID(decoded.Metadata.UID)
	if attempt := decoded.Metadata.Annotations.Attempt; attempt != "" {
		o.SetAnnotations(map[string]string{v1beta1.DeletionAttemptAnnotation: attempt})
	}
	return o
}

func (h Handler) answer(ctx context.Context, r *admissionRequest) *admissionv1.AdmissionResponse {
	if r.Operation != admissionv1.Delete {
		return &admissionv1.AdmissionResponse{Allowed: true} // not in the webhook's rules
	}
	o := r.object()
	if o == nil {
		return deny(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the request has no oldObject with kind and name")
	}
	uses, err := h.Usages.UsesOf(ctx, o)
	switch {
	case err != nil:
		h.Log.Error(err, "cannot determine whether an object is in use", "object", object.KeyOf(o).String())
		return deny(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "cannot determine whether the object is in use: "+err.Error())
	case len(uses) == 0:
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	isReplayed := slices.ContainsFunc(uses, func(u usage.Usage) bool { return u.Replay })
	text := usage.Refusal(uses)
	if isReplayed && h.Authenticated {
		text = usage.Message(uses)
	}
	message := object.KeyOf(o).String() + " is " + text
	switch {
	case r.DryRun:
	case h.Authenticated:
		if err := h.record(ctx, o, r, uses); err != nil { // the deletion is denied anyway
			h.Log.Error(err, "cannot record the attempt to delete an object", "object", object.KeyOf(o).String())
		}
	case isReplayed:
		message += notReplayed
	}
	return deny(http.StatusConflict, inUse, message)
}

func (h Handler) record(ctx context.Context, o *unstructured.Unstructured, r *admissionRequest, uses []usage.Usage) error {
	attempt := Attempt{Policy: r.propagationPolicy()}
	if err := json.Unmarshal(r.UserInfo, &attempt.User); err != nil {
		return fmt.Errorf("decode the userInfo of the request: %w", err)
	}
	return h.Usages.RecordDeletionAttempt(ctx, o, attempt, uses)
}

// notReplayed says why a usage's replayDeletion has no effect.
const notReplayed = "; this deletion will not be replayed: without webhook.clientCA the webhook cannot authenticate its clients"

// inUse is the reason of a denial. It is not Conflict, which means that the object has
// changed.
const inUse metav1.StatusReason = "InUse"

func deny(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// propagationPolicy is what the request asks for the dependents of the object.
func (r *admissionRequest) propagationPolicy() metav1.DeletionPropagation {
	var options struct {
		PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy"`
	}
	if json.Unmarshal(r.Options, &options) == nil && options.PropagationPolicy != "" {
		return options.PropagationPolicy
	}
	return metav1.DeletePropagationBackground
}
