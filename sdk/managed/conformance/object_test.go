package conformance_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var thingKind = schema.GroupVersionKind{Group: "things.example.org", Version: "v1alpha1", Kind: "Thing"}

// managedThing is the managed resource of a thing.
type managedThing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   thingSpec   `json:"spec"`
	Status thingStatus `json:"status,omitempty"`
}

type thingSpec struct {
	resource.Spec `json:",inline"`

	ForProvider  thingParameters `json:"forProvider,omitempty"`
	InitProvider thingParameters `json:"initProvider,omitempty"`
}

type thingParameters struct {
	Region string `json:"region,omitempty"`
	Public bool   `json:"public,omitempty"`
}

type thingStatus struct {
	resource.Status `json:",inline"`

	AtProvider thingObservation `json:"atProvider,omitempty"`
}

type thingObservation struct {
	ID     string `json:"id,omitempty"`
	Region string `json:"region,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (m *managedThing) DeepCopyObject() runtime.Object {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	m.Spec.Spec.DeepCopyInto(&out.Spec.Spec)
	m.Status.Status.DeepCopyInto(&out.Status.Status)
	return &out
}
