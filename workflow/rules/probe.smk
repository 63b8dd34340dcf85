# What search is worth to a trained cell, and what needs no learning: cheap beside training, so
# these also run again when their own code changes.
rule search:
    input:
        layout.FINGERPRINT,
        layout.SEARCH_SOURCE,
        CELL.best,
    output:
        CELL.searched,
    log:
        CELL.log("search"),
    benchmark:
        CELL.usage("search")
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=lambda cell, attempt: 2000 * attempt,
        runtime=lambda cell, attempt: 60 * attempt,
    params:
        settings=lambda cell: PARAMS.search_settings(cell_of(cell)),
    shell:
        "mujax-pipe cell search {wildcards.algo} {wildcards.env} {wildcards.seed} > {log} 2>&1"


rule random:
    input:
        layout.FINGERPRINT,
        layout.RANDOM_SOURCE,
    output:
        ENVIRONMENT.random,
    log:
        ENVIRONMENT.log("random"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        settings=lambda wildcards: PARAMS.random_settings(wildcards.env),
    shell:
        "mujax-pipe random {wildcards.env} > {log} 2>&1"


# For the report alone: `snakemake --cores 1 films`, then `snakemake --report report.html all films`.
rule film:
    input:
        lambda wildcards: [
            path
            for cell in PARAMS.cells()
            if cell.env == wildcards.env
            for path in (CellFiles(cell).best, CellFiles(cell).evaluation_json)
        ],
    output:
        report(
            ENVIRONMENT.film,
            caption="../report/film.gif.rst",
            category="Films",
            labels={"what": "{env}"},
        ),
    log:
        ENVIRONMENT.log("film"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    shell:
        "mujax-pipe film {wildcards.env} {output} > {log} 2>&1"
