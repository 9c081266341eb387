package patchandtransform

import (
	"crypto/sha1" //nolint:gosec // authors ask for it to shorten names, not to keep secrets
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/adler32"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/object/regexps"
)

type stringTransform struct {
	Type    string   `json:"type"`
	Format  *string  `json:"fmt"`
	Convert *string  `json:"convert"`
	Trim    *string  `json:"trim"`
	Regexp  *capture `json:"regexp"`
	Join    *join    `json:"join"`
	Replace *replace `json:"replace"`
}

type capture struct {
	Match   string  `json:"match"`
	Group   int64   `json:"group"`
	Replace *string `json:"replace"`
}

type join struct {
	Separator string `json:"separator"`
}

type replace struct {
	Search  string `json:"search"`
	Replace string `json:"replace"`
}

// maxText bounds the strings that transforms make, in bytes.
const maxText = 1 << 20

var errTextTooLong = fmt.Errorf("the string would have more than %d bytes", maxText)

func (s *stringTransform) apply(value any) (any, error) {
	switch s.Type {
	case "Format":
		return format(*s.Format, value)
	case "Convert":
		return convertText(*s.Convert, value)
	case "TrimPrefix":
		return strings.TrimPrefix(fmt.Sprint(value), *s.Trim), nil
	case "TrimSuffix":
		return strings.TrimSuffix(fmt.Sprint(value), *s.Trim), nil
	case "Regexp":
		return s.Regexp.apply(value)
	case "Join":
		return s.Join.apply(value)
	case "Replace":
		text := fmt.Sprint(value)
		if strings.Count(text, s.Replace.Search)*len(s.Replace.Replace) > maxText {
			return nil, errTextTooLong
		}
		return strings.ReplaceAll(text, s.Replace.Search, s.Replace.Replace), nil
	default:
		return nil, fmt.Errorf("type %s is not supported for string transform type", s.Type)
	}
}

func convertText(how string, value any) (any, error) {
	text := fmt.Sprint(value)
	switch how {
	case "ToUpper":
		return strings.ToUpper(text), nil
	case "ToLower":
		return strings.ToLower(text), nil
	case "ToBase64":
		return base64.StdEncoding.EncodeToString([]byte(text)), nil
	case "FromBase64":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("string is not valid base64: %w", err)
		}
		return string(data), nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("cannot marshal to JSON: %w", err)
	}
	if how == "ToJson" {
		return string(raw), nil
	}
	if text, ok := value.(string); ok {
		raw = []byte(text) // a string is hashed without the quotes of its JSON form
	}
	return hashText(how, raw)
}

func hashText(how string, data []byte) (any, error) {
	switch how {
	case "ToSha1":
		sum := sha1.Sum(data) //nolint:gosec // see the import
		return hex.EncodeToString(sum[:]), nil
	case "ToSha256":
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]), nil
	case "ToSha512":
		sum := sha512.Sum512(data)
		return hex.EncodeToString(sum[:]), nil
	case "ToAdler32":
		return strconv.FormatUint(uint64(adler32.Checksum(data)), 10), nil
	default:
		return nil, fmt.Errorf("type %s is not supported for string convert", how)
	}
}

func (c *capture) apply(value any) (any, error) {
	re, err := compile(c.Match)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprint(value)
	if c.Replace != nil {
		if (len(text)+1)*len(*c.Replace) > maxText {
			return nil, errTextTooLong
		}
		return re.ReplaceAll(text, *c.Replace)
	}
	groups, err := re.FindSubmatch(text)
	if err != nil {
		return nil, err
	}
	if c.Group >= int64(len(groups)) {
		return nil, fmt.Errorf("regexp %q had no matches for group %d", c.Match, c.Group)
	}
	return groups[c.Group], nil
}

func (j *join) apply(value any) (any, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("cannot join non-array values")
	}
	if len(list)*len(j.Separator) > maxText {
		return nil, errTextTooLong
	}
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = fmt.Sprint(item)
	}
	return strings.Join(texts, j.Separator), nil
}

func compile(text string) (*regexps.Regexp, error) {
	re, err := regexps.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("cannot compile regexp: %w", err)
	}
	return re, nil
}
