// Package publish puts CustomResourceDefinitions in place, for the controllers of
// definitions in whatever dialect: whether one may be put there is for them to say.
package publish

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Publisher writes CustomResourceDefinitions.
type Publisher struct {
	Cluster *cluster.Client
	// Published is told of each CustomResourceDefinition as it was written, before its
	// event arrives.
	Published func(*apiextensionsv1.CustomResourceDefinition)
}

// Standing is where a definition's kind stands.
type Standing struct {
	// Ready says that the API server serves the kind as it is wanted.
	Ready bool
	// Reason and Message say why it isn't ready.
	Reason, Message string
	// Unknown says that this is a matter of waiting.
	Unknown bool
}

// Reasons of a kind that isn't ready.
const (
	NotOwned     = "KindNotOwned"
	Establishing = "Establishing"
	Refused      = "Failed"
	Terminating  = "Terminating"
)

// Leaving is the standing of a kind whose former CustomResourceDefinition is going.
func Leaving() Standing {
	return Standing{Unknown: true, Reason: Terminating, Message: "the former CustomResourceDefinition is being deleted; it is made anew once it is gone"}
}

// Of is the standing of a kind whose CustomResourceDefinition is as it is wanted.
func Of(c *apiextensionsv1.CustomResourceDefinition) Standing {
	if crd.Established(c) {
		return Standing{Ready: true}
	}
	return Standing{Unknown: true, Reason: Establishing, Message: crd.Establishing(c)}
}

// Apply applies a CustomResourceDefinition, if the current one, nil for none, isn't as
// wanted already. Its event tells when it is established. Taken says that there is one of
// the name that wasn't known. An error asks for another attempt; where the standing's
// reason is Refused, the error is worth telling.
func (p Publisher) Apply(ctx context.Context, wanted, current *apiextensionsv1.CustomResourceDefinition) (standing Standing, taken bool, err error) {
	u, err := crd.Configuration(wanted)
	if err != nil {
		return Standing{}, false, err
	}
	if current != nil && crd.AsApplied(current, u) {
		return Of(current), false, nil
	}
	var answer *unstructured.Unstructured
	if current == nil {
		answer, err = p.Cluster.Create(ctx, u, v1alpha1.InstanceManager)
	} else {
		answer, err = p.Cluster.Update(ctx, u, current.UID, v1alpha1.InstanceManager)
	}
	standing = Standing{Unknown: true, Reason: Establishing, Message: "waiting for the API server to serve the kind"}
	switch {
	case err == nil:
		written, err := crd.Decode(answer)
		if err != nil {
			return standing, false, err
		}
		p.Published(written)
		if current != nil {
			standing = Of(written) // otherwise its event tells when it is established
		}
		return standing, false, nil
	case current == nil && cluster.IsTaken(err):
		return standing, true, nil
	case cluster.IsGone(err):
		return standing, false, nil // its event brings the next pass
	case !cluster.Passes(err):
		return Standing{Reason: Refused, Message: err.Error()}, false, nil
	case cluster.IsRefused(err):
		standing = Standing{Reason: Refused, Message: err.Error()}
	}
	return standing, false, fmt.Errorf("apply %s: %w", object.KeyOf(u), err)
}

// Find reads the CustomResourceDefinition that has a name from the API server.
func (p Publisher) Find(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	o, err := p.Cluster.Get(ctx, crd.Kind, "", name)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return crd.Decode(o)
}

// Delete deletes a CustomResourceDefinition, unless it is going already.
func (p Publisher) Delete(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) error {
	if c.DeletionTimestamp != nil {
		return nil
	}
	if err := p.Cluster.Delete(ctx, reference(c)); err != nil {
		return fmt.Errorf("delete CustomResourceDefinition %s: %w", c.Name, err)
	}
	return nil
}

// DeleteUnchanged deletes a CustomResourceDefinition, if nobody has changed it since it
// was read. Otherwise the error is one of cluster.IsGone's.
func (p Publisher) DeleteUnchanged(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) error {
	if err := p.Cluster.DeleteUnchanged(ctx, reference(c)); err != nil {
		return fmt.Errorf("delete CustomResourceDefinition %s: %w", c.Name, err)
	}
	return nil
}

func reference(c *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(crd.Kind)
	o.SetName(c.Name)
	o.SetUID(c.UID)
	o.SetResourceVersion(c.ResourceVersion)
	return o
}
