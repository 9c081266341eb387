package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitFor is an entry of a node's waitFor, which has the id of another node as its key. It
// lists the fields of that node's object that must be set before the waiting node is applied.
type WaitFor struct {
	// Fields are paths such as status.privateSubnet1ID, or objects with a path and a check of
	// its value: {"path": "status.vpcID", "pattern": "^vpc-"}.
	//
	// The schema accepts any value, since a structural schema cannot express "a string or an
	// object". The controllers validate the entries when they compile the definition.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Fields []WaitField `json:"fields"`

	// Timeout is how long the fields may be missing. After that, the instance has the
	// condition Stalled with the reason WaitTimeout until the fields are set; they are still
	// watched. By default there is no limit.
	//
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Retries limits the same wait by a number of intervals instead of a duration. The first
	// interval is a second, and each one is twice as long as the one before it, up to an hour.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Retries *int32 `json:"retries,omitempty"`
}

// WaitField is a field to wait for. In JSON it is a string, which is its path, or an object.
type WaitField struct {
	// Path is the path of the field in the other node's object.
	Path string `json:"path"`
	// Pattern is a regular expression (RE2) that a string value must match.
	Pattern string `json:"pattern,omitempty"`
	// Rule is a CEL expression over self, the field's value, that must be true.
	Rule string `json:"rule,omitempty"`
}

// UnmarshalJSON accepts a string and an object.
func (f *WaitField) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*f = WaitField{}
		return json.Unmarshal(raw, &f.Path)
	}
	type withoutMethods WaitField
	return json.Unmarshal(raw, (*withoutMethods)(f))
}

// MarshalJSON writes a string if the field has only a path.
func (f WaitField) MarshalJSON() ([]byte, error) {
	if f.Pattern == "" && f.Rule == "" {
		return json.Marshal(f.Path)
	}
	type withoutMethods WaitField
	return json.Marshal(withoutMethods(f))
}
