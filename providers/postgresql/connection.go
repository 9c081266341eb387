package postgresql

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// generatesPassword reports whether this program generates the role's password: the role can
// log in, has a connection secret but no password of the user's, and may be updated.
func generatesPassword(m *v1alpha1.Role, login bool) bool {
	return m.Spec.ForProvider.PasswordSecretRef == nil && m.Spec.WriteConnectionSecretToRef != nil && login &&
		m.Spec.ManagementPolicies.Allow(resource.ActionUpdate)
}

func userPassword(objects managed.Objects, m *v1alpha1.Role) (string, error) {
	ref := m.Spec.ForProvider.PasswordSecretRef
	o, err := objects.Get(secretKind, m.Namespace, ref.Name)
	if err != nil {
		return "", err
	}
	if o == nil {
		return "", fmt.Errorf("spec.forProvider.passwordSecretRef: the Secret %s/%s does not exist", m.Namespace, ref.Name)
	}
	key := ref.Key
	if key == "" {
		key = "password"
	}
	password := dataOf(o)[key]
	if password == "" || strings.ContainsRune(password, 0) {
		return "", fmt.Errorf("spec.forProvider.passwordSecretRef: the key %q of the Secret %s/%s is missing, empty or contains a zero byte", key,
			m.Namespace, ref.Name)
	}
	return password, nil
}

// It is nil if the Secret belongs to another object.
func readConnectionSecret(objects managed.Objects, m *v1alpha1.Role) (map[string]string, error) {
	if m.Spec.WriteConnectionSecretToRef == nil {
		return nil, nil
	}
	o, err := objects.Get(secretKind, m.Namespace, m.Spec.WriteConnectionSecretToRef.Name)
	if err != nil || o == nil || !metav1.IsControlledBy(o, m) {
		return nil, err
	}
	return dataOf(o), nil
}

func desiredPassword(objects managed.Objects, m *v1alpha1.Role) (string, error) {
	if m.Spec.ForProvider.PasswordSecretRef != nil {
		return userPassword(objects, m)
	}
	data, err := readConnectionSecret(objects, m)
	if err != nil {
		return "", err
	}
	if password := parseStored(data).latest(); password != "" {
		return password, nil
	}
	return "", errors.New("the connection secret does not have the password yet")
}

// serverHas reports whether the server has a password.
func (obs *observation) credentials(sess *session, m *v1alpha1.Role, state *roleState, serverHas func(string) external.Answer) error {
	p := m.Spec.ForProvider
	data, err := readConnectionSecret(sess.objects, m)
	if err != nil {
		return err
	}
	connection := sess.server.connection(state.Name, valueOr(p.Database, sess.server.Database))
	switch {
	case p.PasswordSecretRef != nil:
		password, err := userPassword(sess.objects, m)
		if err != nil {
			return err
		}
		has := serverHas(password)
		obs.password(passwordStep{Set: has == external.No, Unknown: has == external.CannotTell}, state.Name, "the Secret "+p.PasswordSecretRef.Name)
		if connection["password"] = password; has == external.No && data["password"] != "" {
			connection["password"] = data["password"] // it is valid until the other is set
		}
		// The runtime stores a digest of these details where more users can read it. The
		// random nonce prevents that the password is guessed from it.
		connection["nonce"] = data["nonce"]
		if connection["nonce"] == "" {
			connection["nonce"] = rand.Text()
		}
	case generatesPassword(m, state.Attributes["LOGIN"]):
		step := nextPasswordStep(parseStored(data), p.PasswordRotation, sess.servers.options.Now(), newPassword, serverHas)
		obs.password(step, state.Name, "the connection secret "+m.Spec.WriteConnectionSecretToRef.Name)
		connection["password"], connection[keyToken], connection[keyAt] = step.Store.Password, step.Store.Token, formatTime(step.Store.At)
		if step.Store.Next != "" {
			connection[keyNext] = step.Store.Next
		}
		if !step.WaitForSecret && !step.Set {
			obs.atProvider["passwordSetAt"] = connection[keyAt]
		}
	}
	sess.server.addURI(connection)
	obs.connection = map[string][]byte{}
	for key, value := range connection {
		obs.connection[key] = []byte(value)
	}
	return nil
}

func (obs *observation) password(step passwordStep, role, from string) {
	switch {
	case step.WaitForSecret:
		obs.waitsFor = "the password is being stored"
		if step.Store.Next == "" {
			obs.notReady = obs.waitsFor
		}
	case step.Set:
		obs.update.Password, obs.update.PasswordFrom = role, from
		if !step.Store.At.IsZero() {
			obs.update.PasswordSetAt = formatTime(step.Store.At)
		}
		obs.diff = append(obs.diff, "the password differs from the one in "+from)
		if step.Store.Next == "" {
			obs.notReady = "the password is not set yet"
		}
	case step.Unknown:
		obs.waitsFor = "cannot determine whether the password matches " + from + ": stored passwords are not readable, and a login does not show it"
		obs.notReady = obs.waitsFor
	}
}

func (s server) connection(role, database string) map[string]string {
	out := map[string]string{"endpoint": s.Host, "port": strconv.Itoa(int(s.Port)), "database": database}
	if role != "" {
		out["username"] = role
	}
	if s.CA != "" {
		out["ca.crt"] = s.CA
	}
	return out
}

func (s server) addURI(connection map[string]string) {
	query := url.Values{"sslmode": {string(s.TLS)}}
	u := url.URL{Scheme: "postgresql", Path: "/" + connection["database"], Host: net.JoinHostPort(s.Host, connection["port"])}
	if strings.HasPrefix(s.Host, "/") {
		u.Host = ""
		query.Set("host", s.Host)
		query.Set("port", connection["port"])
	}
	if user := connection["username"]; user != "" {
		u.User = url.User(user)
		if password := connection["password"]; password != "" {
			u.User = url.UserPassword(user, password)
		}
	}
	u.RawQuery = query.Encode()
	connection["uri"] = u.String()
}
