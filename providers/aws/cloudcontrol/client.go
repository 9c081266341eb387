package cloudcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// client implements managed.Client for one managed resource.
type client struct {
	*Kind
	account *Account
	objects managed.Objects
	object  *unstructured.Unstructured

	forProvider map[string]any
	// creation is the desired state of a creation; wanted is what is compared, without initProvider. In
	// both, a model.SecretRef stands for each secret.
	creation, wanted map[string]any
	// secretErr is why a secret cannot be read. Nothing is sent then.
	secretErr error
	// last is what was last observed, and what follows from it.
	last *observed
	// isBusy reports whether a handler has last read a resource that was being changed.
	isBusy bool
	// conditional are the properties of the update in flight that AWS changes only in some cases.
	conditional []string
}

type observed struct {
	ref        external.Ref
	properties map[string]any
	comparison model.Comparison
	patch      []model.Operation
	// step is the part of a change that is next, if AWS makes it only in steps.
	step hook.Step
}

// Connect returns a client for one managed resource.
func (k *Kind) Connect(ctx context.Context, account *Account, objects managed.Objects,
	m *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
	c := &client{Kind: k, account: account, objects: objects, object: m}
	c.forProvider, _, _ = unstructured.NestedMap(m.Object, "spec", "forProvider")
	initProvider, _, _ := unstructured.NestedMap(m.Object, "spec", "initProvider")
	var err error
	if c.creation, err = c.withSecrets(model.Desired(k.Type, c.forProvider, initProvider)); err != nil {
		return nil, err
	}
	if c.wanted, err = c.withSecrets(model.Desired(k.Type, c.forProvider, nil)); err != nil {
		return nil, err
	}
	if k.hooks.Handler != nil {
		return c.connectHandler(ctx)
	}
	if k.caps.Naming == external.CallerAssigned {
		c.setIdentifier()
	}
	return c, nil
}

// The properties of the identifier may come from the object's name.
func (c *client) setIdentifier() {
	if key, err := c.Identify(c.object); err == nil {
		model.SetIdentifier(c.Type, c.creation, key.Name)
		model.SetIdentifier(c.Type, c.wanted, key.Name)
	}
}

// Identify returns a key of account, region and type, with the identifier if the caller chooses it.
func (c *client) Identify(m *unstructured.Unstructured) (external.Key, error) {
	key := external.Key{Scope: c.account.Scope, Type: c.Type.Name}
	if c.caps.Naming == external.ProviderAssigned {
		return key, nil
	}
	key.Name = m.GetAnnotations()[resource.ExternalNameAnnotation]
	if key.Name != "" {
		return key, nil
	}
	var err error
	key.Name, err = model.Identifier(c.Type, c.creation, m.GetName())
	return key, err
}

// Observe reads a resource.
func (c *client) Observe(ctx context.Context, _ *unstructured.Unstructured, ref external.Ref) (external.Observation, error) {
	properties, found, err := c.read(ctx, string(ref))
	if err != nil {
		return external.Observation{}, c.readError("read", err)
	}
	if !found {
		return external.Observation{Presence: external.Absent}, nil
	}
	o, seen := c.observation(ref, properties)
	c.last = seen
	if c.hooks.Step != nil && len(seen.comparison.Differences) > 0 {
		c.takeStep(ctx, &o)
	}
	return o, c.addConnection(ctx, &o, ref, properties)
}

func (c *client) target(identifier string, properties map[string]any) hook.Target {
	t := hook.Target{
		Resource: hook.Resource{Identifier: identifier, Properties: properties}, Account: c.account.ID, Region: c.account.Region,
		Annotations: c.object.GetAnnotations(),
	}
	if at := c.object.GetDeletionTimestamp(); at != nil {
		t.Deleted = at.Time
	}
	return t
}

func merged(a, b map[string][]byte) map[string][]byte {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func (c *client) observation(ref external.Ref, properties map[string]any) (external.Observation, *observed) {
	wanted, read := c.normalized(c.wanted), c.normalized(properties)
	seen := &observed{ref: ref, properties: read, comparison: model.Compare(c.Type, wanted, read)}
	seen.patch = model.Patch(c.Type, seen.comparison, wanted, read)
	shown, secrets := hideSecrets(model.Shape(c.Type, properties))
	maps.DeleteFunc(secrets, func(name string, _ []byte) bool { return model.HasSecretRef(c.creation[name]) }) // they are in a Secret already
	o := external.Observation{
		Presence: external.Present, Ref: ref, Mark: c.mark(properties), UpToDate: external.Yes, Ready: external.Yes,
		AtProvider: shown, LateInit: c.chosen(properties), Connection: secrets,
		AdoptionDenied: c.account.AdoptionDenied,
	}
	switch {
	case len(seen.comparison.Differences) > 0:
		o.UpToDate, o.Diff = external.No, seen.comparison.String()
	case len(seen.patch) > 0:
		o.UpToDate, o.Diff = external.No, "values that AWS does not return have changed since they were sent"
	}
	c.setState(&o, properties)
	return o, seen
}

// It is what late initialization stores. Properties that only the read of one resource returns are left out: with them,
// each resource would have to be read alone now and then.
func (c *client) chosen(properties map[string]any) map[string]any {
	out := withoutSecrets(model.Chosen(c.Type, c.forProvider, properties))
	for _, name := range c.hooks.Unread {
		delete(out, name)
	}
	for _, name := range upgraded {
		delete(out, name)
	}
	return out
}

// upgraded are properties that AWS changes by itself, with automatic upgrades. In the spec they would ask for the former
// version after an upgrade.
var upgraded = []string{"EngineVersion", "ReleaseVersion", "Version"}

func (c *client) normalized(properties map[string]any) map[string]any {
	if c.hooks.Normalize == nil {
		return properties
	}
	return c.hooks.Normalize(properties)
}

// It is nil without one.
func (c *client) mark(properties map[string]any) *external.Mark {
	if c.tags.Property == "" {
		return nil
	}
	tags := c.tags.Read(properties)
	if tags[model.TagBinding] == "" {
		return nil
	}
	return &external.Mark{ID: tags[model.TagBinding], Owner: tags[model.TagOwner]}
}

// request is the content of a call as it is stored: without our mark, which is in the intent, and without the values of
// Secrets; it lists their places.
type request struct {
	Desired any               `json:"desired,omitempty"`
	Patch   []model.Operation `json:"patch,omitempty"`
	Secrets []placedSecret    `json:"secrets,omitempty"`
}

// maxDocument is the most characters that Cloud Control takes as a desired state or a patch.
const maxDocument = 262_144

// Prepare returns the desired state or the patch.
func (c *client) Prepare(_ *unstructured.Unstructured, verb external.Verb, seen external.Observation) (external.Request, error) {
	var r request
	switch verb {
	case external.Create:
		desired := c.creation
		if sent := model.Sent(c.Type, c.creation); sent != "" && c.tags.AtCreation {
			desired = c.tagged(desired, map[string]string{model.TagSent: model.Sent(c.Type, c.wanted)})
		}
		r.Desired, r.Secrets = withoutSecretRefs(desired, "desired")
	case external.Update:
		if c.last == nil || c.last.ref != seen.Ref {
			return nil, fmt.Errorf("Prepare was called before Observe %q", seen.Ref)
		}
		patch := c.last.patch
		if len(c.last.comparison.Differences) == 0 && len(patch) == 0 { // only the digest of write-only values differs
			patch = model.WriteOnlyPatch(c.Type, c.normalized(c.wanted), c.last.properties)
		}
		if len(patch) == 0 && c.last.step.Refused != "" {
			return nil, errors.New(c.last.step.Refused)
		}
		if len(patch) == 0 {
			return nil, c.immutableError()
		}
		for i, o := range patch {
			value, secrets := withoutSecretRefs(o.Value, "patch", i, "value")
			r.Patch, r.Secrets = append(r.Patch, model.Operation{Op: o.Op, Path: o.Path, Value: value}), append(r.Secrets, secrets...)
		}
	case external.Delete:
		return nil, nil
	}
	if c.secretErr != nil {
		return nil, c.secretErr
	}
	return encodeRequest(r)
}

// WriteOnlyDigest returns a digest of the values that AWS does not return, unless a tag of the resource has it.
func (c *client) WriteOnlyDigest(*unstructured.Unstructured) string {
	if model.Sent(c.Type, c.wanted) != "" || c.object.GetDeletionTimestamp() != nil {
		return ""
	}
	return model.WriteOnlyDigest(c.Type, c.wanted)
}

// Its bytes are the same for the same content.
func encodeRequest(r any) (external.Request, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("the request has %d bytes; the Cloud Control API takes at most %d", len(raw), maxDocument)
	}
	return raw, nil
}

// No update can correct these differences.
func (c *client) immutableError() error {
	fixed := c.last.comparison.Immutable()
	if len(fixed.Differences) == 0 {
		return errors.New("an update was requested although nothing differs; this is a bug of Espalier")
	}
	return fmt.Errorf("AWS sets this only at the creation of %s: %s. Set it back in spec.forProvider, or delete this object and create another one",
		c.Type.Name, fixed)
}

func (c *client) tagged(properties map[string]any, tags map[string]string) map[string]any {
	out := maps.Clone(properties)
	out[c.tags.Property] = c.tags.Add(properties[c.tags.Property], tags)
	return out
}
