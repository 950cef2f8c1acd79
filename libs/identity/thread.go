package identity

import "strings"

// Thread is one conversation, whatever the scope of its data. It is comparable. User is empty for an anonymous
// conversation.
type Thread struct {
	Tenant  string `json:"tenant"`
	Agent   string `json:"agent"`
	User    string `json:"user,omitempty"`
	Session string `json:"session"`
}

// threadWord stands where a bucket's key has its scope, so that no thread has the key of a bucket.
const threadWord = "thread"

// Thread returns the conversation that the identity names. Without a session id it is IDENTITY_REQUIRED.
func (id Identity) Thread() (Thread, error) {
	if err := id.Validate(); err != nil {
		return Thread{}, err
	}
	if id.Session == "" {
		return Thread{}, required("session", "a thread is named by a session id, and the call has none")
	}
	return Thread{
		Tenant: orDefault(id.Tenant, DefaultTenant), Agent: orDefault(id.Agent, DefaultAgent), User: id.User, Session: id.Session,
	}, nil
}

// Key returns the thread as text, for example "default/thread/coder/ana/s1". It has the properties of [Bucket.Key], and
// differs from every bucket's key.
func (t Thread) Key() string {
	return strings.Join([]string{
		EncodeSegment(t.Tenant), threadWord, EncodeSegment(t.Agent), EncodeSegment(t.User), EncodeSegment(t.Session),
	}, "/")
}

// String returns the key, for logs.
func (t Thread) String() string { return t.Key() }

// Validate checks that tenant, agent and session are set and that every id is one.
func (t Thread) Validate() error {
	for _, f := range [...]struct{ name, value string }{{"tenant", t.Tenant}, {"agent", t.Agent}, {"session", t.Session}} {
		if err := ValidateID(f.name, f.value); err != nil {
			return err
		}
	}
	if t.User == "" {
		return nil
	}
	return ValidateID("user", t.User)
}

// ParseThread reads what [Thread.Key] writes, and nothing else. The reason of the error is IDENTITY_MALFORMED.
func ParseThread(key string) (Thread, error) {
	ids, err := splitKey(key)
	if err != nil {
		return Thread{}, err
	}
	if len(ids) != 5 || ids[1] != threadWord {
		return Thread{}, badKey("thread", key)
	}
	t := Thread{Tenant: ids[0], Agent: ids[2], User: ids[3], Session: ids[4]}
	if t.Validate() != nil || t.Key() != key {
		return Thread{}, badKey("thread", key)
	}
	return t, nil
}
