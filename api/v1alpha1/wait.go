package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitFor names fields of another node that must exist before a node is rendered.
type WaitFor struct {
	// Fields are paths such as status.privateSubnet1ID, or objects that add a
	// format check: {"path": "status.vpcID", "pattern": "^vpc-"}.
	//
	// A CustomResourceDefinition cannot express "a string or an object"; the compiler
	// validates the entries.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Fields []WaitField `json:"fields"`

	// Timeout is how long the fields may take before the instance is reported
	// as Stalled with reason WaitTimeout. The fields are watched all the same, and the
	// instance recovers when they appear. By default there is no limit.
	//
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Retries is how often the fields may be missing, at intervals that begin with a second
	// and double, before the same is reported.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Retries *int32 `json:"retries,omitempty"`
}

// WaitField is a field to wait for. In JSON it is its path alone, or an object.
type WaitField struct {
	// Path is the field within the other node's object.
	Path string `json:"path"`
	// Pattern is a regular expression (RE2) that a string value must match.
	Pattern string `json:"pattern,omitempty"`
	// Rule is a CEL expression over self, the field's value, that must be true.
	Rule string `json:"rule,omitempty"`
}

// UnmarshalJSON reads both spellings.
func (f *WaitField) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*f = WaitField{}
		return json.Unmarshal(raw, &f.Path)
	}
	type plain WaitField
	return json.Unmarshal(raw, (*plain)(f))
}

// MarshalJSON writes the shorter spelling where it says everything.
func (f WaitField) MarshalJSON() ([]byte, error) {
	if f.Pattern == "" && f.Rule == "" {
		return json.Marshal(f.Path)
	}
	type plain WaitField
	return json.Marshal(plain(f))
}
