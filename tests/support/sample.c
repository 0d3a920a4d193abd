/* Small random containers for tests. */
#include "support/sample.h"

#include <dirent.h>

static void must(bool done, const char *what)
{
    if (!done) {
        fprintf(stderr, "sample: %s failed\n", what);
        abort();
    }
}

/* ---- Making ---------------------------------------------------------------------------------------- */

struct synth_geometry sample_geometry(void)
{
    return (struct synth_geometry){.hidden = 64,
                                   .intermediate = 32,
                                   .experts = 4,
                                   .top_k = 2,
                                   .layers = 4,
                                   .dense = 1,
                                   .vocab = 512,
                                   .mtp = 1,
                                   .seed = 7};
}

void sample_make(struct temp_dir *dir, const struct synth_geometry *geometry)
{
    struct synth_geometry own = sample_geometry();
    sluice_error err = {0};
    must(temp_dir_make(dir) == 0, "mkdtemp");
    if (container_synth(dir->path, geometry == NULL ? &own : geometry, NULL, &err) != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
}

static unsigned char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    *len = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*len + 1);
    must(bytes != NULL && fread(bytes, 1, *len, file) == *len, path);
    fclose(file);
    bytes[*len] = '\0';
    return bytes;
}

/* Names of the directory's entries except dot files, sorted; the caller frees each and the list. */
static int list_names(const char *path, struct dirent ***names)
{
    int n = scandir(path, names, NULL, alphasort);
    must(n >= 0, path);
    return n;
}

void sample_copy(struct temp_dir *dir, const char *from)
{
    must(temp_dir_make(dir) == 0, "mkdtemp");
    struct dirent **names;
    int n = list_names(from, &names);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            char path[512];
            size_t len;
            snprintf(path, sizeof(path), "%s/%s", from, names[i]->d_name);
            unsigned char *bytes = read_file(path, &len);
            temp_dir_write(dir, names[i]->d_name, bytes, len);
            free(bytes);
        }
        free(names[i]);
    }
    free(names);
}

/* ---- Shards ---------------------------------------------------------------------------------------- */

void sample_shard_load(struct sample_shard *shard, const struct temp_dir *dir, const char *name)
{
    snprintf(shard->path, sizeof(shard->path), "%s/%s", dir->path, name);
    size_t len;
    unsigned char *bytes = read_file(shard->path, &len);
    size_t header_len = (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
    shard->header = json_loadb((const char *)bytes + 8, header_len, 0, NULL);
    must(shard->header != NULL, shard->path);
    shard->len = len - 8 - header_len;
    shard->data = malloc(shard->len + 1);
    must(shard->data != NULL, "malloc");
    memcpy(shard->data, bytes + 8 + header_len, shard->len);
    free(bytes);
}

void sample_shard_free(struct sample_shard *shard)
{
    json_decref(shard->header);
    free(shard->data);
}

void sample_shard_save(struct sample_shard *shard)
{
    char *text = json_dumps(shard->header, JSON_COMPACT);
    must(text != NULL, "json_dumps");
    size_t len = strlen(text);
    unsigned char prefix[8] = {(unsigned char)len, (unsigned char)(len >> 8), (unsigned char)(len >> 16),
                               (unsigned char)(len >> 24)};
    FILE *file = fopen(shard->path, "wb");
    must(file != NULL && fwrite(prefix, 1, 8, file) == 8 && fwrite(text, 1, len, file) == len &&
             fwrite(shard->data, 1, shard->len, file) == shard->len && fclose(file) == 0,
         shard->path);
    free(text);
    sample_shard_free(shard);
}

/* Calls visit for every shard of the directory until it returns false; visit releases the shard. */
static void each_shard(const struct temp_dir *dir, bool (*visit)(void *user, struct sample_shard *shard), void *user)
{
    struct dirent **names;
    int n = list_names(dir->path, &names);
    bool more = true;
    for (int i = 0; i < n; i++) {
        struct sample_shard shard;
        if (more && strstr(names[i]->d_name, ".safetensors") != NULL) {
            sample_shard_load(&shard, dir, names[i]->d_name);
            more = visit(user, &shard);
        }
        free(names[i]);
    }
    free(names);
}

struct search {
    const char *tensor;
    struct sample_shard *found;
    bool done;
};

static bool visit_search(void *user, struct sample_shard *shard)
{
    struct search *search = user;
    if (json_object_get(shard->header, search->tensor) == NULL) {
        sample_shard_free(shard);
        return true;
    }
    *search->found = *shard;
    search->done = true;
    return false;
}

void sample_shard_find(struct sample_shard *shard, const struct temp_dir *dir, const char *tensor)
{
    struct search search = {tensor, shard, false};
    each_shard(dir, visit_search, &search);
    must(search.done, tensor);
}

json_t *sample_tensor(struct sample_shard *shard, const char *tensor)
{
    json_t *entry = json_object_get(shard->header, tensor);
    must(entry != NULL, tensor);
    return entry;
}

unsigned char *sample_tensor_data(struct sample_shard *shard, const char *tensor, size_t *len)
{
    json_t *offsets = json_object_get(sample_tensor(shard, tensor), "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    *len = (size_t)json_integer_value(json_array_get(offsets, 1)) - begin;
    return shard->data + begin;
}

/* ---- Changes --------------------------------------------------------------------------------------- */

void sample_remove_tensor(const struct temp_dir *dir, const char *tensor)
{
    struct sample_shard shard;
    sample_shard_find(&shard, dir, tensor);
    json_object_del(shard.header, tensor);
    sample_shard_save(&shard);
}

void sample_rename_tensor(const struct temp_dir *dir, const char *tensor, const char *name)
{
    struct sample_shard shard;
    sample_shard_find(&shard, dir, tensor);
    json_object_set(shard.header, name, sample_tensor(&shard, tensor));
    json_object_del(shard.header, tensor);
    sample_shard_save(&shard);
}

static bool visit_remove(void *user, struct sample_shard *shard)
{
    const char *text = user, *name;
    void *next;
    json_t *value;
    json_object_foreach_safe(shard->header, next, name, value)
    {
        if (strstr(name, text) != NULL) {
            json_object_del(shard->header, name);
        }
    }
    sample_shard_save(shard);
    return true;
}

void sample_remove_tensors(const struct temp_dir *dir, const char *text)
{
    char copy[256];
    snprintf(copy, sizeof(copy), "%s", text);
    each_shard(dir, visit_remove, copy);
}

static json_t *parse(const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    must(value != NULL, json);
    return value;
}

void sample_set_header(const struct temp_dir *dir, const char *tensor, const char *field, const char *json)
{
    struct sample_shard shard;
    sample_shard_find(&shard, dir, tensor);
    json_object_set_new(sample_tensor(&shard, tensor), field, parse(json));
    sample_shard_save(&shard);
}

void sample_add_tensor(const struct temp_dir *dir, const char *name)
{
    struct sample_shard shard;
    sample_shard_find(&shard, dir, "model.norm.weight");
    json_object_set_new(shard.header, name, parse("{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}"));
    sample_shard_save(&shard);
}

void sample_set_value(const struct temp_dir *dir, const char *tensor, size_t i, float value)
{
    struct sample_shard shard;
    size_t len;
    sample_shard_find(&shard, dir, tensor);
    unsigned char *data = sample_tensor_data(&shard, tensor, &len);
    must((i + 1) * sizeof(value) <= len, tensor);
    memcpy(data + i * sizeof(value), &value, sizeof(value));
    sample_shard_save(&shard);
}

void sample_set_config(const struct temp_dir *dir, const char *field, const char *json)
{
    const char *path = temp_dir_path(dir, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    must(config != NULL, path);
    json_t *object = config;
    const char *dot = strchr(field, '.');
    if (dot != NULL) {
        char outer[64];
        snprintf(outer, sizeof(outer), "%.*s", (int)(dot - field), field);
        object = json_object_get(config, outer);
        must(object != NULL, outer);
        field = dot + 1;
    }
    if (json == NULL) {
        json_object_del(object, field);
    } else {
        json_object_set_new(object, field, parse(json));
    }
    must(json_dump_file(config, path, JSON_INDENT(1)) == 0, path);
    json_decref(config);
}
