package cloudcontrol

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// References get the namespace and the resource version, which tells that a value has changed.
func (c *client) withSecrets(state map[string]any) (map[string]any, error) {
	if c.object.GetDeletionTimestamp() != nil || !model.HasSecretRef(state) {
		return state, nil
	}
	out, err := model.ReplaceSecretRefs(state, func(_ []any, ref model.SecretRef) (any, error) {
		ref.Namespace = c.namespaceOf(ref)
		secret, err := c.secretOf(ref)
		if err != nil {
			return nil, err
		}
		if secret != nil {
			ref.ResourceVersion = secret.GetResourceVersion()
		}
		if _, err := valueOf(secret, ref); err != nil {
			c.secretErr = err
		}
		return ref, nil
	})
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// It is the managed resource's own, if it has one.
func (c *client) namespaceOf(ref model.SecretRef) string {
	if own := c.object.GetNamespace(); own != "" {
		return own
	}
	return ref.Namespace
}

// It is nil if the Secret does not exist.
func (c *client) secretOf(ref model.SecretRef) (*unstructured.Unstructured, error) {
	namespace := c.namespaceOf(ref)
	secret, err := c.objects.Get(secretKind, namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, ref.Name, err)
	}
	return secret, nil
}

func valueOf(secret *unstructured.Unstructured, ref model.SecretRef) (string, error) {
	if secret == nil {
		return "", fmt.Errorf("the Secret %s/%s does not exist", ref.Namespace, ref.Name)
	}
	encoded, ok, _ := unstructured.NestedString(secret.Object, "data", ref.Key)
	if !ok {
		return "", fmt.Errorf("the Secret %s/%s has no key %q", ref.Namespace, ref.Name, ref.Key)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("the Secret %s/%s has no valid value of the key %q", ref.Namespace, ref.Name, ref.Key)
	}
	return string(raw), nil
}

// placedSecret is a value of a Secret that a stored request leaves out, with the JSON pointer to its place in
// the request. Only these places are filled: everything else in a request may come from a user or from AWS.
type placedSecret struct {
	Pointer         string `json:"pointer"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	Key             string `json:"key,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// null stands for each secret. prefix is where the value is in the request.
func withoutSecretRefs(value any, prefix ...any) (any, []placedSecret) {
	var placed []placedSecret
	out, _ := model.ReplaceSecretRefs(value, func(path []any, ref model.SecretRef) (any, error) {
		pointer := model.Pointer(slices.Concat(prefix, path))
		placed = append(placed, placedSecret{pointer, ref.Namespace, ref.Name, ref.Key, ref.ResourceVersion})
		return nil, nil
	})
	return out, placed
}

// It fills in the values of the Secrets. If a Secret has changed after the request was stored, the values are the new
// ones: a call that AWS has received before is then refused, because its token was used with another request, and the
// outcome is resolved without it.
func (c *client) storedRequest(raw external.Request) (map[string]any, error) {
	stored, err := model.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read the stored request: %w", err)
	}
	var places struct {
		Secrets []placedSecret `json:"secrets"`
	}
	if err := json.Unmarshal(raw, &places); err != nil {
		return nil, fmt.Errorf("read the stored request: %w", err)
	}
	for _, p := range places.Secrets {
		ref := model.SecretRef{Namespace: p.Namespace, Name: p.Name, Key: p.Key}
		ref.Namespace = c.namespaceOf(ref)
		secret, err := c.secretOf(ref)
		if err != nil {
			return nil, err
		}
		value, err := valueOf(secret, ref)
		if err != nil {
			return nil, err
		}
		if err := model.SetAt(stored, p.Pointer, value); err != nil {
			return nil, fmt.Errorf("read the stored request: %w", err)
		}
	}
	return stored, nil
}

// minHidden is the length of the shortest secret that is removed from messages. Shorter ones are in many texts.
const minHidden = 4

// AWS quotes the values of the managed resource's secrets if it does not accept them.
func (c *client) redacted(message string) string {
	_, _ = model.ReplaceSecretRefs(c.creation, func(_ []any, ref model.SecretRef) (any, error) {
		secret, err := c.secretOf(ref)
		if err != nil || secret == nil {
			return nil, nil
		}
		if value, err := valueOf(secret, ref); err == nil && len(value) >= minHidden {
			for _, form := range writtenForms(value) {
				message = strings.ReplaceAll(message, form, "(hidden)")
			}
		}
		return nil, nil
	})
	return bounded(message)
}

// A message may quote a value as it is, in JSON, in JSON in a string, in a URL, in XML, and in base64. The longest is
// first, so none leaves a part of another.
func writtenForms(value string) []string {
	inJSON := func(text string, escapeHTML bool) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escapeHTML)
		_ = e.Encode(text)
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
	}
	once, escaped := inJSON(value, false), inJSON(value, true)
	out := []string{
		value, once, escaped, inJSON(once, false), inJSON(escaped, true), url.QueryEscape(value), url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), html.EscapeString(value),
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return slices.Compact(out)
}

// hideSecrets takes strings with the name of a secret out of what a read returned. The resource's own become connection
// details.
func hideSecrets(read map[string]any) (shown map[string]any, secrets map[string][]byte) {
	for key, value := range read {
		if text, ok := value.(string); ok && text != "" && resourcetype.IsSecret(resourcetype.Path{key}) {
			if secrets == nil {
				secrets = map[string][]byte{}
			}
			secrets[key] = []byte(text)
		}
	}
	return withoutSecrets(read), secrets
}

// Strings that have the name of a secret are left out.
func withoutSecrets(object map[string]any) map[string]any {
	out, _ := without(object).(map[string]any)
	return out
}

func without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			if _, isText := item.(string); !isText || !resourcetype.IsSecret(resourcetype.Path{key}) {
				out[key] = without(item)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = without(item)
		}
		return out
	}
	return value
}
