// The hooks that Envoy calls, and the functions that Go calls. What needs no decision never enters Go.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "_cgo_export.h"

#define HOOK __attribute__((visibility("default")))

// Names of Envoy's callbacks are long.
#define CALL(name) envoy_dynamic_module_callback_##name

// The Go runtime's monitor thread sleeps for 20 µs at a time while requests come. The kernel may let it sleep for 1 ms
// instead: threads inherit the timer slack of the thread that starts them, which here loads the module. Go starts its
// threads in a constructor without a priority, so after this one.
enum { slack_ns = 1000000 };
static int slack_before;

__attribute__((constructor(101))) static void relax(void) {
	slack_before = prctl(PR_GET_TIMERSLACK);
	prctl(PR_SET_TIMERSLACK, slack_ns);
}

HOOK const char *envoy_dynamic_module_on_program_init(void) {
	prctl(PR_SET_TIMERSLACK, slack_before);
	return weirProgramInit() ? WEIR_ABI : NULL;
}

HOOK const void *envoy_dynamic_module_on_http_filter_config_new(void *envoy, buffer name, buffer text) {
	return weirConfigNew(envoy, name, text);
}

HOOK void envoy_dynamic_module_on_http_filter_config_destroy(const void *module) {
	config *c = (config *)module;
	weirConfigDestroy(c->go);
	free(c);
}

HOOK void envoy_dynamic_module_on_http_filter_config_scheduled(void *envoy, const void *module, uint64_t event) {
	weirConfigScheduled(((config *)module)->go, event);
}

HOOK void envoy_dynamic_module_on_http_filter_config_http_callout_done(void *envoy, const void *module, uint64_t id, int result,
	header *headers, size_t count, buffer *chunks, size_t chunk_count) {
	buffer status = {NULL, 0};
	for (size_t i = 0; i < count; i++) {
		if (headers[i].name_length == 7 && memcmp(headers[i].name, ":status", 7) == 0) {
			status = (buffer){headers[i].value, headers[i].value_length};
		}
	}
	weirCallDone(((config *)module)->go, id, status, chunks, chunk_count);
}

HOOK const void *envoy_dynamic_module_on_http_filter_new(const void *module, void *filter) {
	config *c = (config *)module;
	uint32_t w = CALL(http_filter_get_worker_index)(filter);
	if (w >= c->workers) {
		w = c->workers - 1; // of the main thread, which decides no other requests
	}
	stream *s = malloc(sizeof(stream));
	if (s == NULL) {
		return NULL; // Envoy closes the stream
	}
	if (++c->worker[w].last == 0) {
		c->worker[w].last = 1;
	}
	memset(s, 0, offsetof(stream, few));
	s->filter = filter;
	s->worker = c->worker[w].go;
	s->id = c->worker[w].last;
	s->holds = 1;
	s->tasks = s->few;
	s->room = sizeof(s->few);
	return s;
}

// weir_grow makes room for tasks of so many bytes, in the place of those that are there. False if there is no memory.
bool weir_grow(stream *s, uint32_t size) {
	char *more = malloc(size);
	s->size = 0;
	if (more == NULL) {
		return false;
	}
	if (s->tasks != s->few) {
		free(s->tasks);
	}
	s->tasks = more;
	s->room = size;
	return true;
}

// release frees a stream when Envoy has destroyed it and no hook of it runs: Envoy destroys a stream inside a call by
// which a hook answers or resumes it.
static void release(stream *s) {
	if (--s->holds == 0) {
		if (s->tasks != s->few) {
			free(s->tasks);
		}
		free(s);
	}
}

// next reads a task with its texts, and moves at behind it. False behind the last one.
static bool next(const stream *s, size_t *at, uint32_t *what, buffer *first, buffer *second) {
	task t;
	if (*at >= s->size) {
		return false;
	}
	memcpy(&t, s->tasks + *at, sizeof(t));
	*what = t.what;
	*first = (buffer){s->tasks + *at + sizeof(t), t.first};
	*second = (buffer){first->ptr + t.first, t.second};
	*at += sizeof(t) + t.first + t.second;
	return true;
}

// usual_headers is more than nearly all requests have, and most_headers how many the filter gives to a response or a
// call, at most.
enum { usual_headers = 128, most_headers = 32, most_metadata = 16, usual_chunks = 16 };

// get32 reads a number of a serialised map. All platforms of the module are little-endian.
static size_t get32(const char *from) {
	uint32_t v;
	memcpy(&v, from, sizeof(v));
	return v;
}

// parse reads a map of headers, as Proxy-Wasm serialises them, which Go has made.
static size_t parse(const char *map, size_t size, header *into) {
	size_t count = size < 4 ? 0 : get32(map);
	if (count > most_headers) {
		count = most_headers;
	}
	const char *sizes = map + 4, *at = sizes + 8 * (size < 4 ? 0 : get32(map));
	for (size_t i = 0; i < count; i++, sizes += 8) {
		size_t name = get32(sizes), value = get32(sizes + 4);
		into[i] = (header){at, name, at + name + 1, value};
		at += name + value + 2;
	}
	return count;
}

// enter runs a hook of Go with the headers of the request, and then does its tasks but those for the response. Envoy may
// destroy the stream, if this answers it.
static bool enter(stream *s, bool (*hook)(uint32_t, stream *, header *, size_t)) {
	static const char space[] = "weir";
	header here[usual_headers], *all = here;
	size_t count = CALL(http_get_headers_size)(s->filter, request_headers);
	if (count > usual_headers) {
		all = malloc(count * sizeof(header));
	}
	if (all == NULL || !CALL(http_get_headers)(s->filter, request_headers, all)) {
		count = 0;
	}
	bool result = hook(s->worker, s, all, count);
	if (all != here) {
		free(all);
	}

	header metadata[most_metadata], headers[most_headers];
	buffer first, second, details = {NULL, 0}, body = {NULL, 0};
	size_t of_metadata = 0, of_headers = 0, at = 0;
	for (uint32_t what; next(s, &at, &what, &first, &second);) {
		if (what == set_state) {
			CALL(http_set_filter_state_bytes)(s->filter, first, second);
		} else if (what == set_metadata && of_metadata < most_metadata) {
			metadata[of_metadata++] = (header){first.ptr, first.length, second.ptr, second.length};
		} else if (what == respond_with) {
			of_headers = parse(second.ptr, second.length, headers);
		} else if (what == respond) {
			details = first;
			body = second;
		}
	}
	if (of_metadata > 0) {
		CALL(http_set_dynamic_metadata_string_batch)(s->filter, (buffer){space, sizeof(space) - 1}, metadata, of_metadata);
	}
	if (s->status != 0) {
		CALL(http_send_response)(s->filter, s->status, headers, of_headers, body, details);
	}
	return result;
}

HOOK int envoy_dynamic_module_on_http_filter_request_headers(void *filter, const void *module, bool end) {
	stream *s = (stream *)module;
	s->holds++;
	bool waits = enter(s, weirRequestHeaders);
	release(s);
	return waits ? wait_for_verdict : go_on;
}

HOOK void envoy_dynamic_module_on_http_filter_scheduled(void *filter, const void *module, uint64_t event) {
	stream *s = (stream *)module;
	s->holds++;
	if (enter(s, weirScheduled)) {
		CALL(http_filter_continue_decoding)(s->filter);
	}
	release(s);
}

// annotate does the tasks for the response.
static void annotate(stream *s) {
	buffer name, value;
	size_t at = 0;
	for (uint32_t what; next(s, &at, &what, &name, &value);) {
		if (what == add_header) {
			CALL(http_add_header)(s->filter, response_headers, name, value);
		} else if (what == set_header) {
			CALL(http_set_header)(s->filter, response_headers, name, value);
		}
	}
	s->size = 0;
}

HOOK int envoy_dynamic_module_on_http_filter_response_headers(void *filter, const void *module, bool end) {
	stream *s = (stream *)module;
	annotate(s);
	if (s->kept) {
		weirResponseHeaders(s->worker, s, end);
		annotate(s);
	}
	return go_on;
}

HOOK int envoy_dynamic_module_on_http_filter_response_body(void *filter, const void *module, bool end) {
	stream *s = (stream *)module;
	buffer here[usual_chunks], *all = here;
	size_t count = s->reads ? CALL(http_get_body_chunks_size)(s->filter, received_response_body) : 0;
	if (count > usual_chunks) {
		all = malloc(count * sizeof(buffer));
	}
	if (count > 0 && all != NULL && CALL(http_get_body_chunks)(s->filter, received_response_body, all)) {
		weirResponseBody(s->worker, s, all, count);
	}
	if (all != here) {
		free(all);
	}
	return go_on;
}

HOOK int envoy_dynamic_module_on_http_filter_response_trailers(void *filter, const void *module) {
	static const char name[] = "grpc-status";
	stream *s = (stream *)module;
	buffer value = {NULL, 0};
	size_t count = 0;
	if (s->kept) {
		CALL(http_get_header)(s->filter, response_trailers, (buffer){name, sizeof(name) - 1}, &value, 0, &count);
		weirResponseTrailers(s->worker, s, value);
	}
	return go_on;
}

// The stream ends: what filters have set as metadata is there until this hook returns.
HOOK void envoy_dynamic_module_on_http_filter_stream_complete(void *filter, const void *module) {
	stream *s = (stream *)module;
	if (s->kept) {
		s->kept = false;
		weirDestroyed(s->worker, s);
	}
}

HOOK void envoy_dynamic_module_on_http_filter_destroy(const void *module) {
	stream *s = (stream *)module;
	if (s->kept || s->scheduler != NULL) {
		weirDestroyed(s->worker, s);
	}
	if (s->scheduler != NULL) {
		CALL(http_filter_scheduler_delete)(s->scheduler);
		s->scheduler = NULL;
	}
	s->filter = NULL;
	release(s);
}

// Hooks that Envoy wants to find, and that do nothing.
HOOK int envoy_dynamic_module_on_http_filter_request_body(void *f, const void *m, bool end) { return 0; }
HOOK int envoy_dynamic_module_on_http_filter_request_trailers(void *f, const void *m) { return 0; }
HOOK void envoy_dynamic_module_on_http_filter_http_callout_done(void *f, const void *m, uint64_t id, int result, header *h,
	size_t n, buffer *b, size_t k) {}
HOOK void envoy_dynamic_module_on_http_filter_http_stream_headers(void *f, const void *m, uint64_t id, header *h, size_t n, bool end) {}
HOOK void envoy_dynamic_module_on_http_filter_http_stream_data(void *f, const void *m, uint64_t id, const buffer *b, size_t n, bool end) {}
HOOK void envoy_dynamic_module_on_http_filter_http_stream_trailers(void *f, const void *m, uint64_t id, header *h, size_t n) {}
HOOK void envoy_dynamic_module_on_http_filter_http_stream_complete(void *f, const void *m, uint64_t id) {}
HOOK void envoy_dynamic_module_on_http_filter_http_stream_reset(void *f, const void *m, uint64_t id, int reason) {}
HOOK void envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(void *f, const void *m) {}
HOOK void envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(void *f, const void *m) {}

config *weir_config_new(uint32_t workers) {
	config *c = calloc(1, sizeof(config) + workers * sizeof(c->worker[0]));
	if (c != NULL) {
		c->workers = workers;
	}
	return c;
}

void weir_set_worker(config *c, uint32_t i, uint32_t go) { c->worker[i].go = go; }

// weir_missing returns the name of a callback that this Envoy lacks, NULL if it has all.
const char *weir_missing(void) {
#define WEIR_CHECK(result, name, arguments) \
	if (CALL(name) == NULL) \
		return "envoy_dynamic_module_callback_" #name;
	WEIR_CALLBACKS(WEIR_CHECK)
	return NULL;
}

// weir_is_only_copy is false for a second copy of the module in one process.
bool weir_is_only_copy(void) {
	static const char key[] = "weir";
	return CALL(register_function)((buffer){key, sizeof(key) - 1}, (void *)weir_is_only_copy);
}

void weir_log(uint32_t level, const char *text, size_t length) {
	if (CALL(log) != NULL) {
		CALL(log)(level, (buffer){text, length});
	}
}

// put copies a value if it fits, and returns its size.
static size_t put(buffer value, char *into, size_t most) {
	if (value.length <= most && value.length > 0) {
		memcpy(into, value.ptr, value.length);
	}
	return value.length;
}

// weir_response_header copies the headers or trailers of a name, with a comma between them, and returns their size.
size_t weir_response_header(void *filter, int headers, const char *name, size_t length, char *into, size_t most, bool *found) {
	size_t count = 1, size = 0;
	*found = false;
	for (size_t i = 0; i < count; i++) {
		buffer value = {NULL, 0};
		if (!CALL(http_get_header)(filter, headers, (buffer){name, length}, &value, i, &count) || i >= count) {
			break;
		}
		if (i > 0 && size++ < most) {
			into[size - 1] = ',';
		}
		size += size < most ? put(value, into + size, most - size) : value.length;
		*found = true;
	}
	return size;
}

size_t weir_attribute(void *filter, int attribute, char *into, size_t most, bool *found) {
	buffer value = {NULL, 0};
	*found = CALL(http_filter_get_attribute_string)(filter, attribute, &value);
	return *found ? put(value, into, most) : 0;
}

// has_key reports whether a namespace of metadata has a key, whatever its value is.
static bool has_key(void *filter, buffer space, buffer key) {
	size_t count = CALL(http_get_metadata_keys_count)(filter, dynamic_metadata, space);
	buffer *keys = calloc(count + 1, sizeof(buffer));
	bool found = false;
	if (keys != NULL && count > 0 && CALL(http_get_metadata_keys)(filter, dynamic_metadata, space, keys)) {
		for (size_t i = 0; i < count && !found; i++) {
			found = keys[i].length == key.length && memcmp(keys[i].ptr, key.ptr, key.length) == 0;
		}
	}
	free(keys);
	return found;
}

// weir_metadata copies a value of dynamic metadata as Proxy-Wasm serialises it: a string as it is, a number as a double, a
// boolean as one byte. A value of another type is an empty list. kind is the type that the key had last, which is tried
// first: Envoy 1.40 logs an error for each wrong try.
size_t weir_metadata(void *filter, const char *space, size_t space_length, const char *key, size_t key_length, char *into, size_t most,
	bool *found, int *kind) {
	enum { string, numeric, logical, kinds };
	static const char list[4];
	buffer s = {space, space_length}, k = {key, key_length}, value = {NULL, 0};
	double number;
	bool boolean;
	for (int i = 0, last = *kind; i < kinds && !*found; i++) {
		switch (*kind = (last + i) % kinds) {
		case string:
			*found = CALL(http_get_metadata_string)(filter, dynamic_metadata, s, k, &value);
			break;
		case numeric:
			*found = CALL(http_get_metadata_number)(filter, dynamic_metadata, s, k, &number);
			value = (buffer){(const char *)&number, *found ? sizeof(number) : 0};
			break;
		case logical:
			*found = CALL(http_get_metadata_bool)(filter, dynamic_metadata, s, k, &boolean);
			value = (buffer){(const char *)&boolean, *found ? sizeof(boolean) : 0};
		}
	}
	if (!*found && has_key(filter, s, k)) {
		*found = true;
		value = (buffer){list, sizeof(list)};
	}
	return *found ? put(value, into, most) : 0;
}

// weir_span copies the ids of Envoy's span, in hexadecimal. False if the request has none.
bool weir_span(void *filter, char ids[48]) {
	void *span = CALL(http_get_active_span)(filter);
	buffer id = {NULL, 0};
	if (span == NULL || !CALL(http_span_get_trace_id)(span, &id) || id.length != 32) {
		return false;
	}
	memcpy(ids, id.ptr, 32);
	if (!CALL(http_span_get_span_id)(span, &id) || id.length != 16) {
		return false;
	}
	memcpy(ids + 32, id.ptr, 16);
	return true;
}

// weir_call makes a call on the main thread. False if it could not be made.
bool weir_call(void *envoy, uint64_t *id, const char *cluster, size_t cluster_length, const char *headers, size_t size,
	const char *body, size_t body_length, uint64_t timeout_ms) {
	header all[most_headers];
	size_t count = parse(headers, size, all);
	return CALL(http_filter_config_http_callout)(envoy, id, (buffer){cluster, cluster_length}, all, count,
		(buffer){body, body_length}, timeout_ms) == callout_made;
}

// most_labels is how many labels a metric has, at most.
enum { most_labels = 4 };

// split finds texts that have a zero byte behind each.
static void split(const char *texts, size_t count, buffer *into) {
	for (size_t i = 0; i < count && i < most_labels; i++) {
		into[i] = (buffer){texts, strlen(texts)};
		texts += into[i].length + 1;
	}
}

// weir_define defines a metric with labels, and returns its number; 0 if Envoy rejects.
size_t weir_define(void *envoy, int kind, const char *name, size_t name_length, const char *labels, size_t count) {
	buffer all[most_labels], n = {name, name_length};
	size_t id = 0;
	split(labels, count, all);
	int result = kind == counter ? CALL(http_filter_config_define_counter)(envoy, n, all, count, &id)
		: kind == gauge ? CALL(http_filter_config_define_gauge)(envoy, n, all, count, &id)
		: CALL(http_filter_config_define_histogram)(envoy, n, all, count, &id);
	return result == 0 ? id : 0;
}

// weir_record adds to a counter, sets a gauge, or records a value of a histogram.
void weir_record(void *envoy, int kind, size_t id, const char *values, size_t count, uint64_t v) {
	buffer all[most_labels];
	split(values, count, all);
	if (kind == counter) {
		CALL(http_filter_config_increment_counter)(envoy, id, all, count, v);
	} else if (kind == gauge) {
		CALL(http_filter_config_set_gauge)(envoy, id, all, count, v);
	} else {
		CALL(http_filter_config_record_histogram_value)(envoy, id, all, count, v);
	}
}
