// A host of the module in the place of Envoy, for the race detector of Go, which Envoy has no room for in its addresses: two
// threads with requests, and a main thread with ticks, calls and new configurations.
//
//	host SECONDS CONFIGURATION
//
// Each call goes to standard output, and its answer comes from standard input: number, status, and a text behind its size.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

#define ON(name) envoy_dynamic_module_on_##name
#define CALLBACK(name) envoy_dynamic_module_callback_##name

const char *ON(program_init)(void);
const void *ON(http_filter_config_new)(void *envoy, buffer name, buffer text);
void ON(http_filter_config_destroy)(const void *module);
void ON(http_filter_config_scheduled)(void *envoy, const void *module, uint64_t event);
void ON(http_filter_config_http_callout_done)(void *envoy, const void *module, uint64_t id, int result, header *headers,
	size_t count, buffer *chunks, size_t chunk_count);
const void *ON(http_filter_new)(const void *module, void *filter);
int ON(http_filter_request_headers)(void *filter, const void *module, bool end);
int ON(http_filter_response_headers)(void *filter, const void *module, bool end);
void ON(http_filter_scheduled)(void *filter, const void *module, uint64_t event);
void ON(http_filter_destroy)(const void *module);

enum { workers = 2, open_requests = 64, most_calls = 1 << 16, events = 2 };

// conf is a configuration. It is never freed, and ends on the thread that lets the last reference go.
typedef struct {
	atomic_int refs;
	atomic_int due[events];
	const void *module;
	atomic_bool gone;
} conf;

typedef struct {
	atomic_int events;
} scheduler;

typedef struct {
	conf *conf;
	const void *module;
	scheduler *scheduler;
	header all[6];
	char texts[2][256];
	uint32_t worker;
	int status; // of the module's answer
	bool resumed, destroyed;
	bool ends_inside; // Envoy destroys it inside its own answer
} request;

typedef struct answer {
	uint64_t id;
	uint32_t status, size;
	char *body;
	struct answer *next;
} answer;

static _Atomic(conf *) current;
static atomic_bool over;
static atomic_long sent, answered, waited, panics;
static conf *calls[most_calls]; // of the main thread, by number
static uint64_t last_call;
static pthread_mutex_t answers_lock = PTHREAD_MUTEX_INITIALIZER;
static answer *answers;

static bool hold(conf *c) {
	for (int n = atomic_load(&c->refs); n > 0;) {
		if (atomic_compare_exchange_weak(&c->refs, &n, n + 1)) {
			return true;
		}
	}
	return false;
}

static void let_go(conf *c) {
	if (atomic_fetch_sub(&c->refs, 1) == 1) {
		ON(http_filter_config_destroy)(c->module);
		atomic_store(&c->gone, true);
	}
}

static void destroy(request *r) {
	if (!r->destroyed) {
		r->destroyed = true;
		ON(http_filter_destroy)(r->module);
	}
}

void CALLBACK(log)(uint32_t level, buffer text) {
	fprintf(stderr, "%.*s\n", (int)text.length, text.ptr);
	if (memmem(text.ptr, text.length, "panic", 5) != NULL) {
		atomic_fetch_add(&panics, 1);
	}
}
uint32_t CALLBACK(get_concurrency)(void) { return workers; }
bool CALLBACK(register_function)(buffer key, void *function) { return true; }
uint32_t CALLBACK(http_filter_get_worker_index)(void *filter) { return ((request *)filter)->worker; }

bool CALLBACK(http_get_header)(void *filter, int headers, buffer name, buffer *value, size_t index, size_t *count) {
	request *r = filter;
	for (size_t i = 0; i < 6; i++) {
		if (headers == request_headers && name.length == r->all[i].name_length && memcmp(name.ptr, r->all[i].name, name.length) == 0) {
			*value = (buffer){r->all[i].value, r->all[i].value_length};
			return (*count = 1);
		}
	}
	return false;
}
size_t CALLBACK(http_get_headers_size)(void *filter, int headers) { return 6; }
bool CALLBACK(http_get_headers)(void *filter, int headers, header *all) {
	memcpy(all, ((request *)filter)->all, sizeof(header) * 6);
	return true;
}
bool CALLBACK(http_add_header)(void *filter, int headers, buffer name, buffer value) { return true; }
bool CALLBACK(http_set_header)(void *filter, int headers, buffer name, buffer value) { return true; }
bool CALLBACK(http_set_filter_state_bytes)(void *filter, buffer name, buffer value) { return true; }
void CALLBACK(http_set_dynamic_metadata_string_batch)(void *filter, buffer space, const header *all, size_t count) {}
bool CALLBACK(http_get_metadata_string)(void *filter, int source, buffer space, buffer key, buffer *value) { return false; }
bool CALLBACK(http_get_metadata_number)(void *filter, int source, buffer space, buffer key, double *value) { return false; }
bool CALLBACK(http_get_metadata_bool)(void *filter, int source, buffer space, buffer key, bool *value) { return false; }
size_t CALLBACK(http_get_body_chunks_size)(void *filter, int body) { return 0; }
bool CALLBACK(http_get_body_chunks)(void *filter, int body, buffer *chunks) { return false; }
size_t CALLBACK(http_get_metadata_keys_count)(void *filter, int source, buffer space) { return 0; }
bool CALLBACK(http_get_metadata_keys)(void *filter, int source, buffer space, buffer *keys) { return false; }
void *CALLBACK(http_get_active_span)(void *filter) { return NULL; }
bool CALLBACK(http_span_get_trace_id)(void *span, buffer *id) { return false; }
bool CALLBACK(http_span_get_span_id)(void *span, buffer *id) { return false; }
bool CALLBACK(http_filter_get_attribute_string)(void *filter, int attribute, buffer *value) {
	*value = (buffer){"192.0.2.7:4711", 14};
	return attribute == source_address;
}
void CALLBACK(http_send_response)(void *filter, uint32_t status, header *headers, size_t count, buffer body, buffer details) {
	request *r = filter;
	r->status = status;
	atomic_fetch_add(&answered, 1);
	if (r->ends_inside) {
		destroy(r);
	}
}
void CALLBACK(http_filter_continue_decoding)(void *filter) { ((request *)filter)->resumed = true; }

void *CALLBACK(http_filter_scheduler_new)(void *filter) {
	request *r = filter;
	return r->scheduler = calloc(1, sizeof(scheduler));
}
void CALLBACK(http_filter_scheduler_commit)(void *s, uint64_t event) { atomic_fetch_add(&((scheduler *)s)->events, 1); }
void CALLBACK(http_filter_scheduler_delete)(void *s) { free(s); }

void *CALLBACK(http_filter_config_scheduler_new)(void *c) { return c; }
void CALLBACK(http_filter_config_scheduler_commit)(void *c, uint64_t event) { atomic_fetch_add(&((conf *)c)->due[event % events], 1); }
void CALLBACK(http_filter_config_scheduler_delete)(void *c) {}

static void put(const void *bytes, size_t n) { fwrite(bytes, 1, n, stdout); }

int CALLBACK(http_filter_config_http_callout)(void *c, uint64_t *id, buffer cluster, header *headers, size_t count, buffer body, uint64_t timeout_ms) {
	if (rand() % 16 == 0) {
		return 1;
	}
	*id = ++last_call;
	calls[*id % most_calls] = c;
	uint32_t rules = 0, size = body.length;
	for (size_t i = 0; i < count; i++) {
		rules |= memmem(headers[i].value, headers[i].value_length, "QuotaService/Rules", 18) != NULL;
	}
	put(id, sizeof(*id));
	put(&rules, sizeof(rules));
	put(&size, sizeof(size));
	put(body.ptr, body.length);
	fflush(stdout);
	return callout_made;
}

#define DEFINE(kind) \
	int CALLBACK(http_filter_config_define_##kind)(void *c, buffer name, buffer *labels, size_t count, size_t *id) { return (*id = 1) - 1; }
DEFINE(counter)
DEFINE(gauge)
DEFINE(histogram)
int CALLBACK(http_filter_config_increment_counter)(void *c, size_t id, buffer *values, size_t count, uint64_t n) { return 0; }
int CALLBACK(http_filter_config_set_gauge)(void *c, size_t id, buffer *values, size_t count, uint64_t n) { return 0; }
int CALLBACK(http_filter_config_record_histogram_value)(void *c, size_t id, buffer *values, size_t count, uint64_t n) { return 0; }

static header pair(const char *name, const char *value) { return (header){name, strlen(name), value, strlen(value)}; }

static void begin(request *r, uint32_t worker, unsigned *seed) {
	static const char *paths[] = {"/exact", "/leased", "/local", "/slot", "/other"};
	memset(r, 0, sizeof(*r));
	do {
		r->conf = atomic_load(&current);
	} while (!hold(r->conf));
	r->worker = worker;
	r->ends_inside = rand_r(seed) % 2;
	snprintf(r->texts[0], sizeof(r->texts[0]), "%s", paths[rand_r(seed) % 5]);
	snprintf(r->texts[1], sizeof(r->texts[1]), "user-%d", rand_r(seed) % 50);
	r->all[0] = pair(":method", "GET");
	r->all[1] = pair(":path", r->texts[0]);
	r->all[2] = pair(":authority", "example.com");
	r->all[3] = pair("x-user", r->texts[1]);
	r->all[4] = pair("x-request-id", "83bf6a2f-6d6c-4a4e-9f0b-0c6fb2a6a9a1");
	r->all[5] = pair("accept", "*/*");
	r->module = ON(http_filter_new)(r->conf->module, r);
	atomic_fetch_add(&sent, 1);
	r->resumed = ON(http_filter_request_headers)(r, r->module, true) == go_on;
	if (!r->resumed && r->status == 0) {
		atomic_fetch_add(&waited, 1);
	}
}

// work has requests begin, wait, go on and end, in any order.
static void *work(void *number) {
	uint32_t worker = (uint32_t)(uintptr_t)number;
	unsigned seed = worker + 1;
	request *all = calloc(open_requests, sizeof(request));
	for (int i = 0; !atomic_load(&over); i = rand_r(&seed) % open_requests) {
		request *r = &all[i];
		if (rand_r(&seed) % 16 == 0) {
			usleep(100);
		}
		if (r->module == NULL) {
			begin(r, worker, &seed);
		} else if (!r->destroyed && r->scheduler != NULL && atomic_exchange(&r->scheduler->events, 0) > 0) {
			ON(http_filter_scheduled)(r, r->module, 0);
		} else if (r->status != 0 || r->resumed || rand_r(&seed) % 64 == 0) {
			if (!r->destroyed && rand_r(&seed) % 4 > 0) {
				ON(http_filter_response_headers)(r, r->module, true);
			}
			destroy(r);
			r->module = NULL;
			let_go(r->conf);
		}
	}
	for (int i = 0; i < open_requests; i++) {
		if (all[i].module != NULL) {
			destroy(&all[i]);
			let_go(all[i].conf);
		}
	}
	free(all);
	return NULL;
}

static bool get(void *into, size_t n) { return fread(into, 1, n, stdin) == n; }

static void *listen(void *unused) {
	for (;;) {
		answer *a = calloc(1, sizeof(answer));
		if (!get(&a->id, sizeof(a->id)) || !get(&a->status, sizeof(a->status)) || !get(&a->size, sizeof(a->size))) {
			return NULL;
		}
		a->body = malloc(a->size + 1);
		if (a->size > 0 && !get(a->body, a->size)) {
			return NULL;
		}
		pthread_mutex_lock(&answers_lock);
		a->next = answers;
		answers = a;
		pthread_mutex_unlock(&answers_lock);
	}
}

static void configure(const char *text) {
	conf *c = calloc(1, sizeof(conf)), *old;
	atomic_store(&c->refs, 1);
	c->module = ON(http_filter_config_new)(c, (buffer){"weir", 4}, (buffer){text, strlen(text)});
	if (c->module == NULL) {
		fprintf(stderr, "the configuration is rejected\n");
		exit(1);
	}
	if ((old = atomic_exchange(&current, c)) != NULL) {
		let_go(old);
	}
}

// turn does what is due on the main thread.
static void turn(conf *all[], int n) {
	for (int i = 0; i < n; i++) {
		for (uint64_t event = 0; event < events; event++) {
			if (atomic_exchange(&all[i]->due[event], 0) > 0 && hold(all[i])) {
				ON(http_filter_config_scheduled)(all[i], all[i]->module, event);
				let_go(all[i]);
			}
		}
	}
	pthread_mutex_lock(&answers_lock);
	answer *a = answers;
	answers = NULL;
	pthread_mutex_unlock(&answers_lock);
	for (answer *next; a != NULL; a = next) {
		char status[16];
		snprintf(status, sizeof(status), "%u", a->status);
		header headers[1] = {pair(":status", status)};
		buffer chunks[2] = {{a->body, a->size / 2}, {a->body + a->size / 2, a->size - a->size / 2}};
		conf *c = calls[a->id % most_calls];
		if (!atomic_load(&c->gone)) { // the end of a configuration waits for the answers
			ON(http_filter_config_http_callout_done)(c, c->module, a->id, 0, headers, 1, chunks, 2);
		}
		next = a->next;
		free(a->body);
		free(a);
	}
}

int main(int argc, char **argv) {
	int seconds = atoi(argv[1]), n = 0;
	static conf *all[10000];
	if (ON(program_init)() == NULL) {
		return 1;
	}
	pthread_t threads[workers], listener;
	pthread_create(&listener, NULL, listen, NULL);
	configure(argv[2]);
	all[n++] = atomic_load(&current);
	for (int i = 0; i < workers; i++) {
		pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
	}
	for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
		for (int turns = 0; turns < 100; turns++) {
			turn(all, n);
			usleep(1000);
		}
		configure(argv[2]);
		all[n++] = atomic_load(&current);
	}
	atomic_store(&over, true);
	for (int i = 0; i < workers; i++) {
		while (pthread_tryjoin_np(threads[i], NULL) != 0) {
			turn(all, n);
			usleep(1000);
		}
	}
	let_go(atomic_exchange(&current, NULL));
	fprintf(stderr, "%ld requests, %ld waited, %ld answered, %d configurations, %ld panics\n", sent, waited, answered, n, panics);
	return panics > 0 || waited == 0 || answered == 0;
}
